package server

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"perdure/handoff"
)

// pendingAfter is how long a record may keep its caller before the server finishes it alone.
const pendingAfter = 20 * time.Second

// maxClaim bounds a claim as JSON.
const maxClaim = 1 << 20

// claimFlags are the flags that say a claim.
type claimFlags struct {
	passed, failed, notAttempted, questions []string
	next, doneWhen, file                    string
	finished, wait                          bool
}

func (f *claimFlags) add(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.passed, "passed", nil, "a test that passes")
	fs.StringArrayVar(&f.failed, "failed", nil, "'ID: why': a test that fails, and why it may")
	fs.StringArrayVar(&f.notAttempted, "not-attempted", nil, "what was never tried")
	fs.StringArrayVar(&f.questions, "question", nil, "an open question")
	fs.StringVar(&f.next, "next", "", "the one next step")
	fs.StringVar(&f.doneWhen, "done-when", "", "a command that succeeds once the next step is done")
	fs.BoolVar(&f.finished, "finished", false, "there is no next step: the goal is reached")
	fs.StringVar(&f.file, "claim", "", "the claim as a JSON file; - is standard input")
	fs.BoolVar(&f.wait, "wait", false, "wait for slow checks instead of returning pending")
}

// claim is what the flags or the JSON say.
func (f *claimFlags) claim(c *call) (handoff.Claim, error) {
	if f.file != "" {
		if f.next != "" || f.finished || len(f.passed)+len(f.failed)+len(f.notAttempted)+len(f.questions) > 0 {
			return handoff.Claim{}, usage("", "--claim stands alone: the JSON says it all")
		}
		data, err := f.read(c)
		if err != nil {
			return handoff.Claim{}, err
		}
		claim, err := handoff.ParseClaim(data)
		if err != nil {
			return claim, usage("see handoff/FORMAT.md", "the claim: %w", err)
		}
		return claim, nil
	}
	if (f.next == "") == !f.finished {
		return handoff.Claim{}, usage("--next T [--done-when CMD], or --finished", "a record names one next step, or says that the work is finished")
	}
	claim := handoff.Claim{Passed: unique(f.passed), NotAttempted: unique(f.notAttempted), Questions: f.questions, Finished: f.finished}
	if f.next != "" {
		claim.Next = &handoff.Next{Do: f.next, DoneWhen: f.doneWhen}
	} else if f.doneWhen != "" {
		return claim, usage("", "--done-when belongs to --next")
	}
	for _, v := range f.failed {
		id, why, ok := strings.Cut(v, ": ")
		if !ok || strings.TrimSpace(why) == "" {
			return claim, usage("write --failed 'ID: why'", "--failed %q says no reason", v)
		}
		claim.Failed = append(claim.Failed, handoff.Failure{ID: strings.TrimSpace(id), Why: strings.TrimSpace(why)})
	}
	return claim, nil
}

func (f *claimFlags) read(c *call) ([]byte, error) {
	in := c.r.In
	if f.file != "-" {
		file, err := os.Open(c.path(f.file))
		if err != nil {
			return nil, usage("", "the claim: %w", err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxClaim+1))
	if err != nil {
		return nil, fmt.Errorf("read the claim: %w", err)
	}
	if len(data) > maxClaim {
		return nil, usage("", "the claim is larger than %d bytes", maxClaim)
	}
	return data, nil
}

func (c *call) recordCommand() *cobra.Command {
	var f claimFlags
	cmd := &cobra.Command{Use: "record NAME (--next T | --finished) [flags]", Short: "run the checks, compare the claim, store both", Args: cobra.MaximumNArgs(1)}
	f.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.own(args)
		if err != nil {
			return err
		}
		claim, err := f.claim(c)
		if err != nil {
			return err
		}
		h, err := c.s.store.Halt(d.Name)
		if err != nil {
			return err
		}
		if h != nil {
			return refused(fmt.Sprintf("`perdure handoff repair %s --explain 'SUBJECT: why' …` answers the findings", d.Name), "%s is halted: %s", d.Name, h.Reason)
		}
		return c.measured(cmd.Context(), f.wait, pendingRecord{Workspace: d.Name, Kind: "record", Claim: claim})
	}
	return cmd
}

func (c *call) printRecorded(r handoff.Record) error {
	if c.json {
		return c.printRecord(r)
	}
	n := map[string]int{}
	for _, o := range outcomes(r.Measured) {
		n[string(o)]++
	}
	_, err := fmt.Fprintf(c.out, "recorded %s (#%d): %d passed, %d failed, %d skipped\n", r.ID, r.Seq, n["pass"], n["fail"], n["skip"])
	return err
}

func (c *call) printRecord(r handoff.Record) error {
	encoded, err := r.Encode()
	if err != nil {
		return err
	}
	return c.print(json.RawMessage(encoded))
}

func (c *call) repairCommand() *cobra.Command {
	var f claimFlags
	var explain []string
	var carry bool
	cmd := &cobra.Command{Use: "repair NAME (--explain 'SUBJECT: T'… (--next T | --finished) [flags] | --carry)", Short: "answer a broken record with a new, measured one", Args: cobra.MaximumNArgs(1)}
	f.add(cmd.Flags())
	cmd.Flags().StringArrayVar(&explain, "explain", nil, "'SUBJECT: T': what happened, for each finding")
	cmd.Flags().BoolVar(&carry, "carry", false, "run the checks again and keep the claims, where no result changed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.own(args)
		if err != nil {
			return err
		}
		if carry {
			return c.measured(cmd.Context(), f.wait, pendingRecord{Workspace: d.Name, Kind: "carry"})
		}
		if len(explain) == 0 {
			return usage("--explain 'SUBJECT: T' for each finding, or --carry", "a repair says what happened")
		}
		claim, err := f.claim(c)
		if err != nil {
			return err
		}
		return c.measured(cmd.Context(), f.wait, pendingRecord{Workspace: d.Name, Kind: "repair", Claim: claim, Explain: explain})
	}
	return cmd
}

// explained refuses a repair that leaves a finding without an answer.
func explained(stored []byte, explain []string) error {
	var rep handoff.Report
	if err := json.Unmarshal(stored, &rep); err != nil {
		return fmt.Errorf("read the report that halted: %w", err)
	}
	answered := map[string]bool{}
	for _, e := range explain {
		subject, err := answers(e, rep.Findings)
		if err != nil {
			return err
		}
		answered[subject] = true
	}
	var open []string
	for _, f := range rep.Findings {
		if f.Kind == "note" || f.Kind == string(handoff.Holds) {
			continue
		}
		if !answered[f.Subject] {
			open = append(open, f.Subject)
		}
	}
	if len(open) > 0 {
		open = unique(open)
		return refused("add --explain '"+open[0]+": why'", "findings without an explanation: %s", strings.Join(open, ", "))
	}
	return nil
}

// answers is the subject of the finding that 'SUBJECT: T' explains. A subject may have a colon itself, as a file's name
// may: the longest that fits is meant.
func answers(explain string, findings []handoff.Finding) (string, error) {
	subject, fits := "", false
	for _, f := range findings {
		if why, ok := strings.CutPrefix(explain, f.Subject+": "); ok && strings.TrimSpace(why) != "" && len(f.Subject) >= len(subject) {
			subject, fits = f.Subject, true
		}
	}
	if fits {
		return subject, nil
	}
	named, why, ok := strings.Cut(explain, ": ")
	if !ok || strings.TrimSpace(why) == "" {
		return "", usage("write --explain 'SUBJECT: why'", "--explain %q explains nothing", explain)
	}
	return "", usage("the subjects are in `perdure handoff verify`'s findings", "--explain names %q, which is no finding", named)
}
