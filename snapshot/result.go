package snapshot

import (
	"sort"
	"strings"
)

// result sums up what was made.
func (j *making) result(nested []*measured) *measured {
	out := &measured{place: j.place, tree: j.scan.top.tree.text(j.size), scan: j.scan, nested: nested,
		staged: j.staged, known: j.now.Known, keptAt: strings.TrimSuffix(j.statPath, ".stat") + ".index"}
	j.scan.top.each(func(f *folder) {
		for i := range f.entries {
			e := &f.entries[i]
			if e.id.zero() || e.out != "" || e.kind != kindFile && e.kind != kindLink {
				continue
			}
			if e.ignored && !e.forced {
				if e.opted {
					out.opt(joinPath(f.path, e.name), e)
				} else {
					continue
				}
			}
			out.files++
			if !e.absent {
				out.bytes += e.st.Size
			}
		}
	})
	j.scan.reportHardLinks()
	out.addSkips(append(j.scan.skipped, j.skipped...))
	for _, n := range j.now.Notes {
		out.skipped = append(out.skipped, n)
		out.partial = true
	}
	for _, n := range nested {
		out.addNested(n)
	}
	if j.place.broken != "" {
		out.skipped = append(out.skipped, Skip{Path: ".git", Why: j.place.broken})
		out.partial = true
	}
	return out
}

func (m *measured) opt(path string, e *entry) {
	if m.opted == nil {
		m.opted = &folder{}
	}
	s := scan{top: m.opted}
	to := s.place1(path, e.kind)
	to.kind, to.id, to.st = e.kind, e.id, e.st
}

func (m *measured) addSkips(list []omission) {
	sort.SliceStable(list, func(a, b int) bool { return list[a].path < list[b].path })
	for _, s := range list {
		m.skipped = append(m.skipped, Skip{Path: shown(s.path), Why: s.why})
		m.partial = m.partial || s.loss
	}
}

func (m *measured) addNested(n *measured) {
	at := strings.TrimPrefix(strings.TrimPrefix(n.place.dir, m.place.dir), "/")
	for _, s := range n.skipped {
		m.skipped = append(m.skipped, Skip{Path: joinPath(at, s.Path), Why: s.Why})
	}
	m.files += n.files
	m.bytes += n.bytes
	m.partial = m.partial || n.partial
}

// reportHardLinks lists the names of files that have several in the tree.
func (s *scan) reportHardLinks() {
	for _, list := range s.inodes {
		var kept []string
		for _, path := range fields([]byte(list)) {
			if e, _ := s.top.lookup(path); e != nil && !e.id.zero() && (!e.ignored || e.forced || e.opted) {
				kept = append(kept, path)
			}
		}
		sort.Strings(kept)
		for i := 1; i < len(kept); i++ {
			s.skip(kept[i], "hard link to "+kept[0]+", kept as a file of its own", false)
		}
	}
}
