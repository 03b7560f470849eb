package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Edits that git was told not to see, or can't, are edits.
func TestHiddenEditsDrift(t *testing.T) {
	var scenes []scene
	for _, file := range []string{"docs/notes.md", "source", "tests"} {
		path := func(p *project) string {
			switch file {
			case "source":
				return p.source
			case "tests":
				return p.tests
			}
			return file
		}
		for _, flag := range []string{"--assume-unchanged", "--skip-worktree"} {
			scenes = append(scenes, scene{file + " under " + flag, []string{"go", "unittest", "shell"}, nil, func(p *project) {
				p.git("update-index", flag, path(p))
				p.put(path(p), p.text(path(p))+"\n"+p.comment+"hidden\n")
			}, "drifted", []finding{{"drifted", map[string]string{"source": "src/calc", "tests": "src/"}[file], "", "", "edited"}}})
		}
	}
	play(t, append(scenes,
		scene{"the same size and time", []string{"go", "pytest", "node"}, nil, func(p *project) { p.sameStat("docs/notes.md", "nothing opens this\n", "something opens it\n") }, "drifted", []finding{{"drifted", "docs/notes.md", "", "", "modified"}}},
		scene{"an ignore rule", []string{"shell", "pytest"}, nil, func(p *project) {
			p.put(".gitignore", p.text(".gitignore")+"docs/\n")
			p.put("docs/untracked.md", "hidden\n")
			p.put("docs/other.md", "tracked all the same\n")
		}, "drifted", []finding{{"drifted", ".gitignore", "", "", "modified"}, {"drifted", "docs/untracked.md", "", "", ""}, {"drifted", "docs/other.md", "", "", "modified"}}},
		scene{"a mark of perdure's own on another file", []string{"go", "shell"}, nil, func(p *project) {
			p.put("docs/notes.md", "<!-- perdure handoff -->\nnow for something else\n")
		}, "drifted", []finding{{"drifted", "docs/notes.md", "", "", "modified"}}},
	))
}

// sameStat swaps a file's content for another of the same length, and puts its times back.
func (p *project) sameStat(file, was, now string) {
	p.t.Helper()
	path := filepath.Join(p.dir, file)
	info, err := os.Stat(path)
	p.noErr(err)
	if p.text(file) != was || len(was) != len(now) {
		p.t.Fatalf("%s is %q", file, p.text(file))
	}
	p.put(file, now)
	p.noErr(os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// Repositories within the directory are told, whatever happens in them.
func TestRepositoriesWithinAreNeverSilent(t *testing.T) {
	inner := func(p *project, at string) {
		p.must(p.dir, "git", "init", "-q", at)
		p.put(at+"/file", "x\n")
	}
	commit := func(p *project, at string) {
		p.git("-C", at, "add", "-A")
		p.git("-C", at, "commit", "-qm", "in it")
	}
	alone := func(p *project) { // without any other repository within
		p.git("rm", "-qf", "lib")
		p.git("commit", "-qm", "no library")
	}
	play(t, []scene{
		{"a dirty submodule", []string{"go", "pytest"}, nil, func(p *project) { p.put("lib/lib.txt", "dirty\n") }, "drifted", []finding{{"drifted", "lib", "", "", ""}}},
		{"a submodule's own commit", []string{"node", "shell"}, nil, func(p *project) {
			p.put("lib/lib.txt", "dirty\n")
			commit(p, "lib")
		}, "drifted", []finding{{"drifted", "lib", "", "", ""}}},
		{"an ignored file in a submodule", []string{"shell"}, func(p *project) {
			p.put(".git/modules/lib/info/exclude", "*.tmp\n")
		}, func(p *project) { p.put("lib/x.tmp", "x\n") }, "holds", nil},
		{"a new repository without a commit", []string{"go", "shell"}, alone, func(p *project) { inner(p, "docs/inner") }, "drifted", []finding{{"drifted", "docs/inner", "", "", ""}}},
		{"a new repository", []string{"pytest"}, alone, func(p *project) {
			inner(p, "docs/inner")
			commit(p, "docs/inner")
		}, "drifted", []finding{{"drifted", "docs/inner", "", "", ""}}},
		{"an edit in one without a commit", []string{"go", "unittest"}, func(p *project) {
			alone(p)
			inner(p, "docs/inner")
		}, func(p *project) { p.put("docs/inner/file", "y\n") }, "drifted", []finding{{"drifted", "docs/inner", "", "", "content changed"}}},
		{"an edit in one", []string{"shell"}, func(p *project) {
			alone(p)
			inner(p, "docs/inner")
			commit(p, "docs/inner")
		}, func(p *project) { p.put("docs/inner/file", "y\n") }, "drifted", []finding{{"drifted", "docs/inner", "", "", "content changed"}}},
		{"one in another", []string{"shell", "node"}, func(p *project) {
			alone(p)
			inner(p, "docs/inner")
			inner(p, "docs/inner/within")
		}, func(p *project) { p.put("docs/inner/within/file", "y\n") }, "drifted", []finding{{"drifted", "docs/inner", "", "", ""}}},
		{"one that goes", []string{"go"}, func(p *project) {
			alone(p)
			inner(p, "docs/inner")
		}, func(p *project) { p.noErr(os.RemoveAll(filepath.Join(p.dir, "docs/inner"))) }, "drifted", []finding{{"drifted", "docs/inner", "", "", "gone"}}},
		{"one that is committed as it is", []string{"shell"}, func(p *project) {
			alone(p)
			p.want(0, "set", p.name, "--untested", "**")
			inner(p, "docs/inner")
			commit(p, "docs/inner")
		}, func(p *project) { p.git("-C", "docs/inner", "commit", "-q", "--allow-empty", "-m", "again") }, "holds", []finding{{"note", "docs/inner", "", "", "same content"}}},
	})
}

// Edits of tests, and of what says how they are found, are listed apart.
func TestTestEditsAreToldApart(t *testing.T) {
	var scenes []scene
	for _, file := range []string{"conftest.py", "package.json", "go.mod", "src/testdata/one.txt", "pytest.ini", "pyproject.toml", "setup.cfg", "Makefile", "src/__tests__/a.js", "jest.config.js", "spec/a_spec.rb", "checks/all"} {
		scenes = append(scenes, scene{file, []string{"shell"}, func(p *project) {
			p.put("checks/all", p.text(p.tests))
			p.want(0, "set", p.name, "--check", "sh ./checks/all")
			p.put(file, p.comment+"before\n"+p.text("checks/all"))
		}, func(p *project) { p.put(file, p.text(file)+"# after\n") }, "drifted", []finding{{"drifted", file, "", "", "test edited"}}})
	}
	play(t, append(scenes, scene{"the tests, beside the code", nil, nil, func(p *project) {
		p.put(p.tests, p.text(p.tests)+"\n"+p.comment+"more\n")
		p.put(p.source, p.text(p.source)+"\n"+p.comment+"more\n")
		all := p.shows("drifted", finding{"drifted", p.tests, "", "", "test edited"})
		if found(all, finding{"drifted", p.source, "", "", "test edited"}) || !found(all, finding{"drifted", p.source, "", "", "edited"}) {
			p.t.Errorf("the code is told as a test: %+v", all)
		}
	}, "drifted", nil}))
}

// An edit that no check opens drifts, and is uncovered besides.
func TestAnEditThatNoCheckOpensIsUncoveredToo(t *testing.T) {
	play(t, []scene{{"a file of its own", []string{"go", "unittest"}, func(p *project) { p.want(0, "set", p.name, "--untested", "lock.json") },
		func(p *project) { p.put("docs/other.md", "edited\n") }, "drifted", []finding{{"drifted", "docs/other.md", "", "", "edited"}, {"uncovered", "docs/other.md", "", "", "no check opens it"}}}})
}

// Edits across the lines of ownership are told with who made them.
func TestOwnershipNamesWhoEdited(t *testing.T) {
	f := newFixtures(t)
	for _, l := range f.langs {
		if l.name != "go" && l.name != "shell" {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			f.t = t
			p := f.bare(l)
			defer p.remove()
			p.want(0, "set", p.name, "--owns", "src", "--owns", "docs", "--untested", "*", "--untested", "outside/**")
			p.record()
			p.shows("holds")
			other := p.name + "-other"
			p.want(0, "new", other, "--dir", p.dir, "--owns", "outside", "--check", "true", "--", "sh", "-c", "echo other >> docs/other.md; echo mine >> outside/file.txt")
			defer p.run("rm", other, "--purge")
			p.want(0, "start", other)
			p.want(0, "wait", other, "--for", "exit")
			p.shows("drifted", finding{"drifted", "docs/other.md", "", "", "ownership: workspace " + other}, finding{"note", "outside/file.txt", "", "", "owned by workspace " + other})

			p.git("checkout", "-q", "docs/other.md")
			p.shows("holds", finding{"note", "outside/file.txt", "", "", other}) // results decide
			p.put("run.sh", "#!/bin/sh\ntrue\n")
			p.shows("drifted", finding{"uncovered", "run.sh", "", "", "outside of what this workspace owns"})
			p.want(0, "handoff", "repair", p.name, "--carry", "--wait")
			p.shows("uncovered", finding{"uncovered", "run.sh", "", "", "outside of what this workspace owns"})
			p.git("add", "-A")
			p.git("commit", "-qm", "all of it")
			p.git("commit", "-q", "--amend", "-m", "and its parent")
			p.shows("uncovered", finding{"uncovered", "run.sh", "", "", "outside of what this workspace owns"})
		})
	}
	f.t = t
}

// Without a repository the first snapshot is what edits count from.
func TestOwnershipCountsWithoutARepository(t *testing.T) {
	b := newBox(t)
	b.must(b.app, "rm", "-rf", ".git")
	b.want(0, "new", "app", "--check", "go test ./...", "--owns", "*.go", "--untested", "notes.txt")
	b.want(0, "handoff", "record", "app", "--next", "x", "--wait")
	b.verify(0)
	b.write(b.app+"/notes.txt", "x")
	b.named(b.verify(11), "drifted", "notes.txt", "added")
	b.want(0, "handoff", "repair", "app", "--carry", "--wait")
	b.named(b.verify(10), "uncovered", "notes.txt", "ownership")
}
