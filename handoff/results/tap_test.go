package results

import (
	"maps"
	"testing"
)

func TestTAP(t *testing.T) {
	for name, c := range map[string]struct {
		in       string
		want     map[string]Outcome
		complete bool
	}{
		"plain":        {"TAP version 13\n1..3\nok 1 - adds\nnot ok 2 - subtracts\nok 3 - later # SKIP no net\n", map[string]Outcome{"adds": Pass, "subtracts": Fail, "later": Skip}, true},
		"known":        {"1..2\nnot ok 1 - soon # TODO write it\nok 2 - done # todo\n", map[string]Outcome{"soon": Skip, "done": Pass}, true},
		"no names":     {"1..2\nok\nnot ok 2\n", map[string]Outcome{"test 1": Pass, "test 2": Fail}, true},
		"hash in name": {"1..1\nok 1 - issue \\#7 holds\n", map[string]Outcome{"issue #7 holds": Pass}, true},
		"subtests": {"TAP version 14\n# Subtest: outer\n    # Subtest: inner\n        ok 1 - deep\n        1..1\n    ok 1 - inner\n    not ok 2 - other\n    1..2\nnot ok 1 - outer\n1..1\n",
			map[string]Outcome{"outer/inner/deep": Pass, "outer/inner": Pass, "outer/other": Fail, "outer": Fail}, true},
		"same name twice":            {"1..2\nok 1 - a\nnot ok 2 - a\n", map[string]Outcome{"a": Pass, "a#2": Fail}, true},
		"fewer than planned":         {"1..3\nok 1 - a\n", map[string]Outcome{"a": Pass, "check": NotRun}, false},
		"more than planned":          {"1..1\nok 1 - a\nok 2 - b\n", map[string]Outcome{"a": Pass, "b": Pass, "plan": Fail}, true},
		"bailed out":                 {"1..2\nok 1 - a\nBail out! no database\n", map[string]Outcome{"a": Pass, "check": NotRun}, false},
		"results within diagnostics": {"TAP version 13\nnot ok 1 - a\n  ---\n  error: |-\n    ok 7 - printed\n    1..9\n  ...\n1..1\n", map[string]Outcome{"a": Fail}, true},
		"plan at the end":            {"ok 1 - a\r\nok 2 - b\r\n1..2\r\n", map[string]Outcome{"a": Pass, "b": Pass}, true},
	} {
		set, err := Parse("tap", []byte(c.in), nil, 0, "check")
		if err != nil || !maps.Equal(set.Tests, c.want) || set.Complete != c.complete {
			t.Errorf("%s: %v complete %v, %v", name, set.Tests, set.Complete, err)
		}
		if auto, err := Parse("", []byte(c.in), nil, 0, "check"); err != nil || auto.Tool != "tap" {
			t.Errorf("%s is taken for %s, %v", name, auto.Tool, err)
		}
	}
}

func TestWhatIsNoTAP(t *testing.T) {
	for _, in := range []string{"", "ok\n", "ok then\nnot ok\n", "built 1..3 of it\n"} {
		if set, err := Parse("tap", []byte(in), nil, 0, "check"); err == nil {
			t.Errorf("%q: %v", in, set.Tests)
		}
		if set, _ := Parse("", []byte(in), nil, 0, "check"); set.Tool != "exit" {
			t.Errorf("%q is taken for %s", in, set.Tool)
		}
	}
	if set, err := Parse("tap", []byte("1..0 # skipped: no net\n"), nil, 0, "check"); err != nil || len(set.Tests) != 0 {
		t.Errorf("nothing planned: %v, %v", set.Tests, err) // no test ran: never a pass
	}
}
