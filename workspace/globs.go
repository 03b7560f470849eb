package workspace

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Two globs overlap when some path matches both. That is decided here on automata, one a glob, walked together
// from their starts: the first pair of ends that is reached spells the shortest path of both. Globs are
// doublestar's: ?, *, **, [class], {one,other} and \ for the next character as it is.

// matcher is what an edge takes: one character, or, with next alone, none.
type matcher struct {
	class string // of doublestar's form for one character; empty: takes none
	lit   rune   // the one character that it takes, 0 if class says which
	slash bool   // takes / too
}

type edge struct {
	matcher
	to int
}

// automaton has state 0 as its start and one end.
type automaton struct {
	edges [][]edge
	end   int
}

func (a *automaton) state() int {
	a.edges = append(a.edges, nil)
	return len(a.edges) - 1
}

func (a *automaton) link(from, to int, m matcher) { a.edges[from] = append(a.edges[from], edge{m, to}) }

// maxStates bounds what a glob of nested alternatives can cost.
const maxStates = 4096

// compile adds the states of a glob after the state from and returns its end.
func (a *automaton) compile(glob string, from int) int {
	at := from
	for i := 0; i < len(glob) && len(a.edges) < maxStates; {
		rest := glob[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || glob[i-1] == '/'):
			at, i = a.folders(at), i+3
		case rest == "**" && (i == 0 || glob[i-1] == '/'):
			at, i = a.loop(at, matcher{class: "?", slash: true}), i+2
		case rest[0] == '*':
			at, i = a.loop(at, matcher{class: "?"}), i+1
		case rest[0] == '?':
			at, i = a.step(at, matcher{class: "?"}), i+1
		case rest[0] == '[' && closing(rest, '[', ']') > 0:
			n := closing(rest, '[', ']')
			at, i = a.step(at, matcher{class: rest[:n+1]}), i+n+1
		case rest[0] == '{' && closing(rest, '{', '}') > 0:
			n := closing(rest, '{', '}')
			at, i = a.either(alternatives(rest[1:n]), at), i+n+1
		default:
			if rest[0] == '\\' && len(rest) > 1 {
				rest, i = rest[1:], i+1
			}
			r, size := utf8.DecodeRuneInString(rest)
			at, i = a.step(at, matcher{lit: r}), i+size
		}
	}
	return at
}

func (a *automaton) step(from int, m matcher) int {
	to := a.state()
	a.link(from, to, m)
	return to
}

// loop takes any number of what m takes.
func (a *automaton) loop(from int, m matcher) int {
	to := a.state()
	a.link(from, to, matcher{})
	a.link(to, to, m)
	return to
}

// folders is **/ : no folder, or any number of them.
func (a *automaton) folders(from int) int {
	inside, to := a.state(), a.state()
	a.link(from, to, matcher{})
	a.link(from, inside, matcher{})
	a.link(inside, inside, matcher{class: "?", slash: true})
	a.link(inside, to, matcher{lit: '/'})
	return to
}

func (a *automaton) either(globs []string, from int) int {
	to := a.state()
	for _, g := range globs {
		a.link(a.compile(g, from), to, matcher{})
	}
	return to
}

// closing is the index of the bracket that closes the one at the start, or -1.
func closing(s string, open, shut byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == open && (open != '[' || i == 0):
			depth++
		case s[i] == shut:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// alternatives splits at the commas that are in no inner braces.
func alternatives(s string) (out []string) {
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				out, start = append(out, s[start:i]), i+1
			}
		}
	}
	return append(out, s[start:])
}

// takes says whether the matcher takes a character.
func (m matcher) takes(r rune) bool {
	switch {
	case m.lit != 0:
		return m.lit == r
	case r == '/':
		return m.slash
	}
	ok, err := doublestar.Match(m.class, string(r))
	return err == nil && ok
}

// both are characters that two matchers take: one of a word, and / where they take it.
func both(x, y matcher) (out []rune) {
	candidates := []rune{x.lit, y.lit, 'x'}
	if x.lit == 0 && y.lit == 0 {
		candidates = append(candidates, []rune(x.class+y.class)...)
		for r := rune(' '); r <= '~'; r++ {
			candidates = append(candidates, r)
		}
	}
	for _, r := range candidates {
		if r != 0 && r != '/' && x.takes(r) && y.takes(r) {
			out = append(out, r)
			break
		}
	}
	if x.takes('/') && y.takes('/') {
		out = append(out, '/')
	}
	return out
}

// place is a state of each automaton, and of what a file can be called: not empty, no / at either end, none after
// another.
type place struct {
	x, y int
	word bool // the path so far ends within a word
}

type way struct {
	place
	path []rune
}

// witness is a path that both globs match, one of the shortest.
func witness(x, y string) (string, bool) {
	if !doublestar.ValidatePattern(x) || !doublestar.ValidatePattern(y) {
		return "", false
	}
	var a, b automaton
	a.end = a.compile(path.Clean(x), a.state())
	b.end = b.compile(path.Clean(y), b.state())
	seen := map[place]bool{}
	queue := []way{{}}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if seen[w.place] {
			continue
		}
		seen[w.place] = true
		if w.x == a.end && w.y == b.end && w.word {
			return string(w.path), true
		}
		// What takes no character comes first: so the queue stays in the order of the paths' lengths.
		free, taking := successors(&a, &b, w)
		queue = append(slices.Concat(free, queue), taking...)
	}
	return "", false
}

func successors(a, b *automaton, w way) (free, taking []way) {
	for _, e := range a.edges[w.x] {
		if e.matcher == (matcher{}) {
			free = append(free, way{place{e.to, w.y, w.word}, w.path})
		}
	}
	for _, f := range b.edges[w.y] {
		if f.matcher == (matcher{}) {
			free = append(free, way{place{w.x, f.to, w.word}, w.path})
		}
	}
	for _, e := range a.edges[w.x] {
		for _, f := range b.edges[w.y] {
			if e.matcher == (matcher{}) || f.matcher == (matcher{}) {
				continue
			}
			for _, r := range both(e.matcher, f.matcher) {
				if r != '/' || w.word {
					taking = append(taking, way{place{e.to, f.to, r != '/'}, append(slices.Clone(w.path), r)})
				}
			}
		}
	}
	return free, taking
}
