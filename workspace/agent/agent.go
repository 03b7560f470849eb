// Package agent has the presets: how a coding agent is started with what the last session handed over, how its own
// conversation is resumed, and what its hooks report. A preset is data; FORMAT.md describes it.
package agent

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// How the id of a conversation comes about.
const (
	Preassigned = "preassigned" // perdure makes it up and gives it at the start
	Captured    = "captured"    // a hook tells it
	None        = "none"
)

// What an agent's hook can mean.
const (
	Begin        = "begin"
	Prompt       = "prompt"
	Working      = "working"
	Permission   = "permission"
	Notification = "notification"
	Failure      = "error"
	Compact      = "compact"
	Compacted    = "compacted"
	Stop         = "stop"
	Done         = "done"
	End          = "end"
)

var meanings = []string{Begin, Prompt, Working, Permission, Notification, Failure, Compact, Compacted, Stop, Done, End}

// Preset is one agent.
type Preset struct {
	Name         string            `toml:"-"`
	Extends      string            `toml:"extends"`
	Args         []string          `toml:"args"`
	About        string            `toml:"about"`
	Start        []string          `toml:"start"`
	Resume       []string          `toml:"resume"`
	Conversation string            `toml:"conversation"`
	Transcript   string            `toml:"transcript"`
	Context      string            `toml:"context"`
	Env          map[string]string `toml:"env"`
	Hooks        map[string]string `toml:"hooks"`
	Files        map[string]string `toml:"files"`
	Install      map[string]string `toml:"install"`
}

// Shell says whether a preset is the person's own shell.
func (p Preset) Shell() bool { return len(p.Start) == 0 }

//go:embed presets/*.toml
var builtin embed.FS

// Presets are the built-in ones, by name.
func Presets() (map[string]Preset, error) {
	files, err := builtin.ReadDir("presets")
	if err != nil {
		return nil, err
	}
	out := map[string]Preset{}
	for _, f := range files {
		data, err := builtin.ReadFile("presets/" + f.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(f.Name(), ".toml")
		if out[name], err = Decode(name, data); err != nil {
			return nil, err
		}
	}
	return out, nil
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// Decode reads one preset, the body of its table in TOML, and checks it.
func Decode(name string, data []byte) (Preset, error) {
	p := Preset{Name: name}
	d := toml.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("agent %q: %w", name, err)
	}
	return p, p.check()
}

// With are the built-in presets and a configuration's own, by name. An own one that extends a built-in, or has its
// name, is that one but for the keys that it sets; its args follow the program's name in start and resume. The error
// names the preset and the key that can't be meant.
func With(own map[string]Preset) (map[string]Preset, error) {
	all, err := Presets()
	if err != nil {
		return nil, err
	}
	builtin := maps.Clone(all)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		p := own[name]
		p.Name = name
		base, found := builtin[cmp.Or(p.Extends, name)]
		switch {
		case p.Extends != "" && !found:
			return nil, fmt.Errorf("agent %q: extends %q, which is none of %s", name, p.Extends, strings.Join(slices.Sorted(maps.Keys(builtin)), ", "))
		case found:
			p = p.over(base)
		case len(p.Start) == 0:
			return nil, fmt.Errorf("agent %q: start or extends must say what runs", name)
		}
		p.Start, p.Resume = withArgs(p.Start, p.Args), withArgs(p.Resume, p.Args)
		if err := p.check(); err != nil {
			return nil, err
		}
		all[name] = p
	}
	return all, nil
}

// over fills what p leaves out from another preset. Tables are merged key by key.
func (p Preset) over(base Preset) Preset {
	p.About = cmp.Or(p.About, base.About)
	p.Conversation = cmp.Or(p.Conversation, base.Conversation)
	p.Transcript = cmp.Or(p.Transcript, base.Transcript)
	p.Context = cmp.Or(p.Context, base.Context)
	if p.Start == nil {
		p.Start = base.Start
	}
	if p.Resume == nil {
		p.Resume = base.Resume
	}
	p.Env, p.Hooks = merged(base.Env, p.Env), merged(base.Hooks, p.Hooks)
	p.Files, p.Install = merged(base.Files, p.Files), merged(base.Install, p.Install)
	return p
}

func merged(base, more map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

func withArgs(words, args []string) []string {
	if len(words) == 0 {
		return words
	}
	return slices.Concat(words[:1], args, words[1:])
}

func (p *Preset) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("agent %q: %s", p.Name, fmt.Sprintf(format, args...))
	}
	if !validName.MatchString(p.Name) {
		return bad("a name is lower-case letters, digits, '_' and '-'")
	}
	if p.Conversation == "" {
		p.Conversation = None
	}
	if !slices.Contains([]string{Preassigned, Captured, None}, p.Conversation) {
		return bad("conversation is preassigned, captured or none, not %q", p.Conversation)
	}
	if !slices.Contains([]string{"", "text", "json"}, p.Context) {
		return bad("context is text or json, not %q", p.Context)
	}
	if len(p.Start) > 0 && p.Start[0] == "" {
		return bad("start names no program")
	}
	for event, m := range p.Hooks {
		if !slices.Contains(meanings, m) {
			return bad("hook %q means nothing known: %q", event, m)
		}
	}
	for f := range p.Files {
		if f != filepath.Base(f) || !filepath.IsLocal(f) {
			return bad("%q is not the name of a file", f)
		}
	}
	for f, to := range p.Install {
		if _, ok := p.Files[f]; !ok || !filepath.IsLocal(to) {
			return bad("install: %q to %q", f, to)
		}
	}
	return nil
}

// Vars are the values that a preset's places are filled with.
type Vars struct {
	ID, Brief, Dir, Perdure, Home, State, Session, Workspace string
	Preset                                                   string
}

func (v Vars) replacer(escape func(string) string) *strings.Replacer {
	var list []string
	for k, s := range map[string]string{"id": v.ID, "brief": v.Brief, "dir": v.Dir, "perdure": v.Perdure, "home": v.Home, "state": v.State, "session": v.Session, "workspace": v.Workspace,
		"hook": quote(v.Perdure) + " hook " + v.Preset} {
		list = append(list, "{"+k+"}", escape(s))
	}
	return strings.NewReplacer(list...)
}

func quote(w string) string {
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+", r)
	}) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// inJSON escapes a value for the inside of a JSON string, which TOML's basic strings share.
func inJSON(s string) string {
	data, _ := json.Marshal(s) // a string always can be
	return string(data[1 : len(data)-1])
}

func plain(s string) string { return s }

// Words fills a command's places.
func (v Vars) Words(words []string) []string {
	raw, escaped := v.replacer(plain), v.replacer(inJSON)
	out := make([]string, len(words))
	for i, w := range words {
		if i > 0 && words[i-1] == "-c" {
			out[i] = escaped.Replace(w)
			continue
		}
		out[i] = raw.Replace(w)
	}
	return out
}

// Text fills the places of a file by its name, or of a value of the environment ("").
func (v Vars) Text(name, text string) string {
	if ext := path.Ext(name); ext == ".json" || ext == ".js" || (name == "" && strings.HasPrefix(text, "{\"")) {
		return v.replacer(inJSON).Replace(text)
	}
	return v.replacer(plain).Replace(text)
}

// Kept says whether the conversation of v.ID can still be there: its transcript is, or the preset names none.
func (p Preset) Kept(v Vars) bool {
	if len(p.Resume) == 0 || (p.Conversation != None && v.ID == "") {
		return false
	}
	if p.Transcript == "" {
		return p.Conversation != None
	}
	found, err := filepath.Glob(v.replacer(plain).Replace(p.Transcript))
	return err == nil && len(found) > 0
}

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidID refuses what can't be a conversation's id: it becomes a word of a command and a part of a glob.
func ValidID(id string) bool { return validID.MatchString(id) }
