package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What the story does over and over: run a command and show it, type as the agent, ask how things stand.

// show runs a command, shows it with at most lines lines of its output, and checks its exit status.
func (d *demo) show(ctx context.Context, status, lines int, name string, args ...string) (string, error) {
	line := commandLine(name, args)
	d.tell.command(line)
	out, got, err := d.box.runTicking(ctx, func(t time.Duration) { d.tell.waiting("", t) }, name, args...)
	d.tell.output(out, lines)
	if err != nil {
		return out, err
	}
	if status != 0 || got != status {
		d.tell.output(fmt.Sprintf("[exit status %d]", got), 1)
	}
	if got != status {
		return out, fmt.Errorf("expected `%s` to exit with status %d; it exited with %d: %s", clipped(line), status, got, lastText(out))
	}
	return out, nil
}

// perdure is show of a perdure command that succeeds.
func (d *demo) perdure(ctx context.Context, lines int, args ...string) (string, error) {
	return d.show(ctx, 0, lines, "perdure", args...)
}

// ask reads the JSON of a perdure command that exits with status, without showing it.
func (d *demo) ask(ctx context.Context, v any, status int, args ...string) error {
	out, got, err := d.box.run(ctx, "perdure", append(args, "--json")...)
	if err != nil {
		return err
	}
	if got != status {
		return fmt.Errorf("expected `perdure %s --json` to exit with status %d; it exited with %d: %s", strings.Join(args, " "), status, got, lastText(out))
	}
	if err := json.Unmarshal([]byte(out), v); err != nil {
		return fmt.Errorf("expected `perdure %s --json` to print JSON; it printed %s: %w", strings.Join(args, " "), lastText(out), err)
	}
	return nil
}

// standing is how the workspace stands, out of `perdure show`.
type standing struct {
	State   string `json:"state"`
	Session *struct {
		ID    string `json:"id"`
		State string `json:"state"`
		Pid   int    `json:"pid"`
	} `json:"session"`
	Handoff *struct {
		ID      string `json:"id"`
		Verdict string `json:"verdict"`
	} `json:"handoff"`
}

// session is the state of the workspace's session, "" where there was none.
func (s standing) session() string {
	if s.Session == nil {
		return ""
	}
	return s.Session.State
}

func (s standing) verdict() string {
	if s.Handoff == nil {
		return ""
	}
	return s.Handoff.Verdict
}

func (d *demo) standing(ctx context.Context) (s standing, err error) {
	err = d.ask(ctx, &s, 0, "show", "loader")
	return s, err
}

// eventually looks again and again until what is expected has come about.
func (d *demo) eventually(ctx context.Context, expected string, look func() (bool, error)) error {
	deadline := time.Now().Add(demoPatience)
	for {
		ok, err := look()
		if err != nil || ok {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("expected %s within %s; it did not come about", expected, demoPatience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// expect checks a fact.
func expect(ok bool, what string, got any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("expected %s; got %v", what, got)
}

// connect attaches by ssh, and shows what came until the pattern did.
func (d *demo) connect(ctx context.Context, want *regexp.Regexp, lines int) (string, error) {
	d.tell.command(commandLine(d.box.sshWords()[0], d.box.sshWords()[1:]))
	var err error
	if d.term, err = d.box.attach(); err != nil {
		return "", err
	}
	text, err := d.term.until(ctx, want, d.tell.waiting)
	d.tell.output(agentPrompt.ReplaceAllString(text, ""), lines)
	return text, err
}

var (
	// A redrawn row ends with its last letter: the blank of the prompt need not come.
	agentPrompt = regexp.MustCompile(`(^|\n)( *perdure: [^\n]*)?agent\$ *(perdure: [^\n]*)?$`) // a notice may share its row
	morePrompt  = regexp.MustCompile(`\n> $`)
)

// agent types a command into the session, a line at a time, and shows what the terminal did until the next prompt.
func (d *demo) agent(ctx context.Context, lines int, command string) (string, error) {
	typed := strings.Split(command, "\n")
	var out strings.Builder
	for i, line := range typed {
		if err := d.term.send(line + "\r"); err != nil {
			return "", err
		}
		prompt := morePrompt
		if i == len(typed)-1 {
			prompt = agentPrompt
		}
		text, err := d.term.until(ctx, prompt, d.tell.waiting)
		out.WriteString(text)
		if err != nil {
			d.tell.output("agent$ "+out.String(), lines)
			return "", err
		}
	}
	text := strings.TrimLeft(agentPrompt.ReplaceAllString(out.String(), ""), " ")
	d.tell.print("\n")
	d.tell.output("agent$ "+text, lines)
	return text, nil
}

// leave ends the session as the agent, and checks the status that ssh passes on.
func (d *demo) leave(ctx context.Context, status int) error {
	if err := d.term.send("exit\r"); err != nil {
		return err
	}
	out, got, err := d.term.wait(ctx)
	if err != nil {
		return err
	}
	d.term = nil
	d.tell.print("\n")
	d.tell.output("agent$ "+strings.TrimLeft(out, " ")+fmt.Sprintf("\n[ssh's exit status: %d]", got), 10)
	return expect(got == status, fmt.Sprintf("ssh to exit with status %d", status), got)
}

// mustSay checks that a text says all of these.
func mustSay(text string, words ...string) error {
	i := slices.IndexFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("expected %q in what was printed; got: %s", words[i], lastText(text))
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// commandLine is a command as a person would type it.
func commandLine(name string, args []string) string {
	words := []string{name}
	for _, a := range args {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word for a POSIX shell, where it needs to be.
func shellWord(w string) string {
	if plainWord.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
