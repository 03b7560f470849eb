package server

import (
	"testing"
	"time"

	"perdure/workspace"
)

func TestJudgeBelievesTheNewestOfTheBestSource(t *testing.T) {
	now := time.Unix(100000, 0)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	report := func(activity, why string, ago time.Duration) *hookReport {
		return &hookReport{At: at(ago), Activity: activity, Why: why, Text: "Allow?"}
	}
	bell := &workspace.Notice{Kind: "bell", Text: "the bell rang", At: at(time.Minute)}
	osc := func(text string) *workspace.Notice {
		return &workspace.Notice{Kind: "osc", Text: text, At: at(time.Minute)}
	}
	old := at(time.Hour)
	for name, c := range map[string]struct {
		st    workspace.Status
		hook  *hookReport
		shell bool
		want  string
	}{
		"a hook says waiting":           {workspace.Status{LastOutput: old}, report(waiting, whyPermission, time.Minute), false, "waiting hook permission"},
		"a person answered it":          {workspace.Status{LastOutput: at(30 * time.Second), LastInput: at(30 * time.Second)}, report(waiting, whyPermission, time.Minute), false, "idle screen "},
		"the agent went on":             {workspace.Status{LastOutput: at(time.Second), Printing: true}, report(waiting, whyPermission, time.Minute), false, "working screen "},
		"its own dialog is drawn":       {workspace.Status{LastOutput: at(59 * time.Second)}, report(waiting, whyPermission, time.Minute), false, "waiting hook permission"},
		"a hook's working":              {workspace.Status{LastOutput: at(20 * time.Second)}, report(working, "", time.Hour), false, "working hook "},
		"interrupted without a hook":    {workspace.Status{LastOutput: at(2 * time.Minute)}, report(working, "", time.Hour), false, "idle screen "},
		"a turn is done":                {workspace.Status{LastOutput: at(time.Minute)}, report(idle, whyTurnDone, time.Minute), false, "idle hook turn-done"},
		"a bell":                        {workspace.Status{LastOutput: old, Notice: bell}, nil, false, "waiting bell question"},
		"a notification":                {workspace.Status{LastOutput: old, Notice: osc("Claude needs your permission to use Bash")}, nil, false, "waiting osc permission"},
		"a notification that it's over": {workspace.Status{LastOutput: old, Notice: osc("Build finished")}, nil, false, "idle osc turn-done"},
		"a shell at its prompt":         {workspace.Status{LastOutput: at(time.Second), Pid: 7, Foreground: 7}, nil, true, "idle process "},
		"a shell's silent command":      {workspace.Status{LastOutput: old, Pid: 7, Foreground: 9}, nil, true, "working process "},
		"a marked prompt":               {workspace.Status{LastOutput: old, Mark: "prompt", Pid: 7, Foreground: 9}, nil, true, "idle osc "},
		"a question on the screen":      {workspace.Status{LastOutput: old, Line: "Overwrite it? [y/N] "}, nil, false, "waiting screen question"},
		"output flows":                  {workspace.Status{LastOutput: old, Printing: true}, nil, false, "working screen "},
		"quiet":                         {workspace.Status{LastOutput: old}, nil, false, "idle screen "},
	} {
		got := judge(c.st, c.hook, c.shell, now)
		if s := got.activity + " " + got.source + " " + got.why; s != c.want {
			t.Errorf("%s: got %q, want %q", name, s, c.want)
		}
	}
}
