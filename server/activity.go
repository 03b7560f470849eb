package server

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"perdure/workspace"
	"perdure/workspace/wire"
)

// What a live session does, as CONTRACT promises it.
const (
	working = "working"
	waiting = "waiting"
	idle    = "idle"
)

// Why a session needs a person.
const (
	whyPermission = "permission"
	whyQuestion   = "question"
	whyTurnDone   = "turn-done"
)

// doing is what a session does, by which source, and what it wants of a person.
type doing struct {
	activity string
	source   string // hook, osc, bell, process or screen
	why      string // "" where nobody is needed
	text     string
	since    time.Time
}

// attention is what `ls` shows of a session that needs a person, or nil.
func (d doing) attention() *attention {
	if d.why == "" {
		return nil
	}
	return &attention{Why: d.why, Since: d.since, Text: d.text}
}

// hookReport is what an agent's own hook said last, and when. It is kept in the session's folder.
type hookReport struct {
	At       time.Time `json:"at"`
	Event    string    `json:"event"`
	Activity string    `json:"activity"`
	Why      string    `json:"why,omitempty"`
	Text     string    `json:"text,omitempty"`
}

// hookSilence is how long a hook's "working" stands while the session prints nothing: an agent that was interrupted
// tells no hook.
const hookSilence = time.Minute

// wentOn is how long after a hook said "waiting" or "idle" output means that the agent went on without telling.
const wentOn = 5 * time.Second

// stands says whether nothing has happened since that the hook doesn't know of.
func (h *hookReport) stands(st workspace.Status, now time.Time) bool {
	if h == nil {
		return false
	}
	if h.Activity == working {
		return now.Sub(later(h.At, printed(st, now))) < hookSilence
	}
	return !st.LastInput.After(h.At) && printed(st, now).Before(h.At.Add(wentOn))
}

// printed is when the session printed last, at the latest: a host tells of each burst's begin and end only.
func printed(st workspace.Status, now time.Time) time.Time {
	if st.Printing {
		return later(st.LastOutput, now.Add(-workingFor))
	}
	return st.LastOutput
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// judge tells what a session does: the agent's own hooks are believed first, then the terminal's sequences, the
// bell, the processes, and last what the screen shows. Each source is void once something newer says otherwise, so
// that no state sticks.
func judge(st workspace.Status, hook *hookReport, shell bool, now time.Time) doing {
	if hook.stands(st, now) {
		return doing{hook.Activity, "hook", hook.Why, hook.Text, hook.At}
	}
	if n := st.Notice; n != nil && n.Kind == "osc" {
		why := reason(n.Text)
		if why == whyTurnDone {
			return doing{idle, "osc", why, n.Text, n.At}
		}
		return doing{waiting, "osc", why, n.Text, n.At}
	}
	quiet := !st.Printing && now.Sub(st.LastOutput) >= workingFor
	switch {
	case st.Notice != nil:
		return doing{waiting, "bell", whyQuestion, st.Notice.Text, st.Notice.At}
	case quiet && asks.MatchString(st.Line):
		return doing{waiting, "screen", whyQuestion, strings.TrimSpace(st.Line), st.LastOutput}
	case st.Progress && !quiet:
		return doing{activity: working, source: "osc", since: st.LastOutput}
	case shell && st.Mark != "":
		return doing{activity: map[string]string{"prompt": idle, "command": working}[st.Mark], source: "osc", since: st.LastOutput}
	case shell && st.Foreground > 0:
		if st.Foreground != st.Pid {
			return doing{activity: working, source: "process", since: st.LastOutput}
		}
		return doing{activity: idle, source: "process", since: st.LastOutput}
	case quiet:
		return doing{activity: idle, source: "screen", since: st.LastOutput}
	}
	return doing{activity: working, source: "screen", since: st.LastOutput}
}

// asks finds a prompt for an answer at the end of the cursor's row.
var asks = regexp.MustCompile(`(?i)(\[y/n\]|\(y/n\)|\(yes/no(/[^)]*)?\)|password( for .*)?:|passphrase.*:|continue\?|proceed\?|press (enter|return|any key).*)\s*[:?>]?\s*$`)

var (
	permits = regexp.MustCompile(`(?i)permission|approv|allow\b|authori[sz]e`)
	done    = regexp.MustCompile(`(?i)\b(done|finished|completed?|turn[- ]complete)\b`)
)

// reason reads from a notification's text what is wanted.
func reason(text string) string {
	switch {
	case permits.MatchString(text):
		return whyPermission
	case strings.HasSuffix(strings.TrimSpace(text), "?"):
		return whyQuestion
	case done.MatchString(text):
		return whyTurnDone
	}
	return whyQuestion
}

// hear takes in what a host says of its session, until it hangs up.
func (s *Server) hear(sp *space, sess *workspace.Session, conn *wire.Conn) {
	err := conn.Write(wire.StatusRequest{})
	for err == nil {
		var f wire.Frame
		f, err = conn.Read()
		st, ok := f.(wire.Status)
		if err != nil || !ok {
			continue
		}
		var status workspace.Status
		if bad := json.Unmarshal(st.JSON, &status); bad != nil {
			s.log.Warn("a host's status can't be read", "workspace", sp.name, "err", bad)
			continue
		}
		s.see(sp, sess, status)
	}
}

// see takes in what a host said of its session, and tells of what changed.
func (s *Server) see(sp *space, sess *workspace.Session, st workspace.Status) {
	sp.mu.Lock()
	if sp.session == nil || sp.session.ID != sess.ID {
		sp.mu.Unlock()
		return
	}
	sp.status = &st
	sp.mu.Unlock()
	s.tellActivity(sp, sess)
}

// tellActivity makes events of a session's change of state, once each.
func (s *Server) tellActivity(sp *space, sess *workspace.Session) {
	now, ok := s.doing(sp, sess)
	if !ok {
		return
	}
	sp.mu.Lock()
	before := sp.told
	sp.told = now
	sp.mu.Unlock()
	switch {
	case now.why != "" && (now.why != before.why || !now.since.Equal(before.since)):
		fields := map[string]any{"why": now.why, "text": now.text, "source": now.source, "session": sess.ID}
		if now.source == "bell" {
			s.event(sp.name, "bell", map[string]any{"session": sess.ID})
		}
		s.event(sp.name, "waiting", fields)
	case now.activity != before.activity || now.why != before.why:
		s.feed.tell() // nothing to keep, but whoever shows it looks again
	}
}

// doing is what a live session does by what its host said last; false where that isn't known yet.
func (s *Server) doing(sp *space, sess *workspace.Session) (doing, bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.status == nil || sp.status.ID != sess.ID {
		return doing{}, false
	}
	return judge(*sp.status, sp.hookOf(sess), shellArgv(sess.Argv), time.Now()), true
}

// hookOf is the last hook report of a session; mu is held.
func (sp *space) hookOf(sess *workspace.Session) *hookReport {
	if sp.hooked != sess.ID {
		sp.hooked, sp.hook = sess.ID, readHook(sess.Dir)
	}
	return sp.hook
}
