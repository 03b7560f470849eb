package main

import "testing"

// Who wants to go to the next workspace where none needs them, or leaves the picker, or names one that isn't there,
// stays where they were: it used to end the connection.
func TestAWayThatLeadsNowhereLeadsBack(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "sh", "-c", "echo ready; while read x; do echo got-$x; done")
	b.want(0, "new", "other", "--", "sh", "-c", "echo here; while read x; do echo other-$x; done")
	x := b.inTerminal(b.connect(b.port, "app"))
	defer x.kill()
	x.expect("ready")
	x.send("\r~n")
	x.expect("no workspace needs you")
	x.send("\ra\r")
	x.expect("got-a")
	x.send("\r~w")
	x.expect("number or name")
	x.send("q\r")
	x.expect("got-a") // the redraw
	x.send("\rb\r")
	x.expect("got-b")
	x.send("\r~w")
	x.expect("number or name")
	x.send("nobody\r")
	x.expect(`no workspace "nobody"`)
	x.send("\rc\r")
	x.expect("got-c")
	x.send("\r~w")
	x.expect("number or name")
	x.send("other\r")
	x.expect("here")
	x.send("d\r")
	x.expect("other-d")
}
