package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// cases says which tests show, from outside or on the part that does it, each state of a record that has a verdict of
// its own. A state is there by its number, or by its words.
var cases = map[string][]string{
	"1 same tree, same results":                        {"TestVerdictsFromOutside", "TestAnHonestRecordHolds"},
	"2 a recorded pass fails; flaky":                   {"TestVerdictOfAnUnchangedTreeWhoseResultsDiffer", "TestTwoRunsThatDifferAreFlaky"},
	"3 a recorded failure passes":                      {"TestVerdictOfAnUnchangedTreeWhoseResultsDiffer"},
	"4 an edit after the record; never opened":         {"TestNoMutationHolds", "TestAnEditThatNoCheckOpensIsUncoveredToo"},
	"5 written before the last edit":                   {"TestARecordFromBeforeTheLastEditHalts"},
	"6 the recorded commit is gone":                    {"TestTheRecordedCommitIsGone"},
	"7 no test ran":                                    {"TestARunWithoutTestsSaysNothing"},
	"8 a named test is gone":                           {"TestVerdictsFromOutside", "TestNoMutationHolds"},
	"9 fewer tests":                                    {"TestVerdictsFromOutside"},
	"10 the run stops early":                           {"TestARunThatStopsEarlySaysWhatItDidNotReach"},
	"11 the exit status is hidden":                     {"TestAHiddenExitStatusHidesNoFailure"},
	"12 a weaker check":                                {"TestAWeakerRecordedCheckConfirmsNothing"},
	"13 tests or their configuration edited":           {"TestTestEditsAreToldApart"},
	"14 only ignored files changed":                    {"TestAnHonestRecordHolds"},
	"15 the environment isn't ready":                   {"TestAHaltForWhatIsNotReadyEndsByItself", "TestRunProblems"},
	"16 hidden edits":                                  {"TestHiddenEditsDrift"},
	"17 submodules and nested repositories":            {"TestRepositoriesWithinAreNeverSilent"},
	"18 an old result file":                            {"TestAnOldResultFileSaysNothing"},
	"19 a damaged record":                              {"TestADamagedRecordIsInvalidAndSaysWhere", "TestDecodeStrict"},
	"20 another workspace edits what this one owns":    {"TestOwnershipNamesWhoEdited"},
	"21 edits outside of what it owns":                 {"TestOwnershipNamesWhoEdited", "TestOwnershipCountsWithoutARepository"},
	"22 not attempted, and there":                      {"TestWhatWasNotAttemptedAndIsThere"},
	"23 done already":                                  {"TestTheNextStepIsDoneAlready", "TestACommandNeedsConsentByItsHash"},
	"24 delivered and merged":                          {"TestADeliveryIsVerifiedAndThenMerged", "TestAMergeThatDoesNotHoldTouchesNothing", "TestAMergeCountsOnlyWhatRanOnIt"},
	"25 the check misbehaves":                          {"TestACheckEndsAtTheBoxsLimits", "TestACheckThatIgnoresTermEndsAtItsTimeout", "TestNothingOfACheckSurvives"},
	"verification changes nothing":                     {"TestVerificationChangesNothing", "TestACheckThatEditsFilesGivesNoAnswer"},
	"no check at all":                                  {"TestWithoutACheckNothingHalts"},
	"no false alarm":                                   {"TestAnHonestRecordHolds", "TestASecondRunOfAToolWithCachesHolds"},
	"equal results after an honest change are carried": {"TestCarrySettlesAnHonestDrift"},
}

// Every state has its test, and the test exists.
func TestEveryCaseHasItsTest(t *testing.T) {
	for n := 1; n <= 25; n++ {
		numbered := func(name string) bool { return strings.HasPrefix(name, strconv.Itoa(n)+" ") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(cases)), numbered) {
			t.Errorf("case %d has no test", n)
		}
	}
	source := ""
	for _, glob := range []string{"*_test.go", "../../handoff/*_test.go"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source += string(data)
		}
	}
	for name, tests := range cases {
		for _, test := range tests {
			if !strings.Contains(source, "\nfunc "+test+"(t *testing.T) {") {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
	}
}

// scene is one state of a recorded project and its verdict.
type scene struct {
	name     string
	langs    []string         // "" is every one
	recorded func(p *project) // before the record
	then     func(p *project) // after it
	verdict  string
	want     []finding // Kind; Subject, and in Note a word of the rest, are parts of what is found
}

// play shows each scene in its languages.
func play(t *testing.T, scenes []scene) {
	t.Helper()
	f := newFixtures(t)
	for _, s := range scenes {
		for _, l := range f.langs {
			if len(s.langs) > 0 && !slices.Contains(s.langs, l.name) {
				continue
			}
			t.Run(s.name+" in "+l.name, func(t *testing.T) {
				f.t = t
				p := f.bare(l)
				defer p.remove()
				if s.recorded != nil {
					s.recorded(p)
				}
				p.record()
				s.then(p)
				p.shows(s.verdict, s.want...)
			})
		}
	}
	f.t = t
}

// shows wants a verdict and its findings.
func (p *project) shows(verdict string, want ...finding) []finding {
	p.t.Helper()
	got, all := p.report()
	if got != verdict {
		p.t.Errorf("%s, want %s: %+v", got, verdict, all)
	}
	for _, w := range want {
		if !found(all, w) {
			p.t.Errorf("no %s finding about %s with %q in %+v", w.Kind, w.Subject, w.Note, all)
		}
	}
	return all
}

func found(all []finding, w finding) bool {
	return slices.ContainsFunc(all, func(f finding) bool {
		return f.Kind == w.Kind && strings.Contains(f.Subject, w.Subject) && strings.Contains(f.Recorded+" "+f.Found+" "+f.Note, w.Note)
	})
}

// broken is the code with a mistake that fails some of the tests.
func (p *project) broken() string {
	return strings.NewReplacer("a + b", "a - b", "$1 + $2", "$1 - $2").Replace(p.code)
}

// The commit of a record may go: its tree decides, and the store's copy is what edits are told from.
func TestTheRecordedCommitIsGone(t *testing.T) {
	forget := func(p *project) {
		p.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
		p.git("gc", "-q", "--prune=now")
	}
	commit := func(p *project) {
		p.put("docs/other.md", "more of "+p.name+"\n") // else another project's part of the store has the tree
		p.git("commit", "-qam", "more")
	}
	note := finding{"note", "commit", "", "", "no longer in the repository"}
	play(t, []scene{
		{"gc, the same tree", []string{"go", "pytest", "shell"}, commit, func(p *project) {
			p.git("commit", "-q", "--amend", "-m", "other")
			forget(p)
		}, "holds", []finding{note}},
		{"gc, another tree", []string{"unittest", "node"}, commit, func(p *project) {
			p.put("made.txt", "other\n")
			p.git("commit", "-q", "--amend", "-m", "other", "made.txt")
			forget(p)
		}, "drifted", []finding{note, {"drifted", "made.txt", "", "", "modified"}}},
		{"a force-push that was pulled", []string{"go", "shell"}, func(p *project) {
			p.git("clone", "-q", "--bare", p.dir, p.dir+".up")
			commit(p)
		}, func(p *project) {
			p.git("fetch", "-q", p.dir+".up", "main")
			p.git("reset", "-q", "--hard", "FETCH_HEAD")
			forget(p)
		}, "drifted", []finding{note, {"drifted", "docs/other.md", "", "", "modified"}}},
		{"a shallow clone in its place", []string{"go", "pytest"}, commit, func(p *project) {
			p.git("commit", "-q", "--allow-empty", "-m", "on top")
			p.clone("--depth", "1")
		}, "holds", []finding{note}},
		{"gone from the store too", []string{"node", "shell"}, commit, func(p *project) {
			store := p.store()
			p.put("made.txt", "other\n")
			for ref := range strings.FieldsSeq(p.must(store, "git", "for-each-ref", "--format=%(refname)")) {
				p.must(store, "git", "update-ref", "-d", ref)
			}
			p.must(store, "git", "gc", "-q", "--prune=now")
			p.must(store, "git", "prune", "--expire=now")
		}, "invalid", []finding{{"invalid", "tree", "", "", "nowhere to be found"}}},
	})
}

// store is the repository of the project's snapshots.
func (p *project) store() string {
	p.t.Helper()
	var w struct{ Store string }
	decode(p.t, p.want(0, "show", p.name, "--json"), &w)
	return w.Store
}
