package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"perdure/snapshot"
)

func (c *call) pruneCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{Use: "prune [--dry-run]", Short: "apply the keeping policy now",
		Long: "prune applies the keeping policy now, as the server does by itself every ten minutes. Snapshots: " + c.s.conf().policy().String() +
			". Journals of ended sessions: " + c.s.conf().Keep.Journals.String() + ", the newest session's for ever.", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be dropped")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := c.who.mustBePerson("prune"); err != nil {
			return err
		}
		return c.prune(cmd.Context(), dry)
	}
	return cmd
}

// dropped is one snapshot that a pruning gives up.
type dropped struct {
	Workspace string    `json:"workspace"`
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Reason    string    `json:"reason"`
}

func (c *call) prune(ctx context.Context, dry bool) error {
	k, err := c.s.planKeeping(ctx, time.Now())
	if err != nil {
		return err
	}
	var report snapshot.PruneReport
	if !dry {
		bar := c.bar("pruning")
		report, err = c.s.applyKeeping(ctx, k, bar.set)
		bar.done()
		if err != nil {
			return err
		}
	}
	list := []dropped{}
	for _, snap := range k.drop {
		list = append(list, dropped{snap.Workspace, snap.ID, snap.At, snap.Reason})
	}
	if c.json {
		return c.print(map[string]any{"dry_run": dry, "snapshots": list, "kept": k.kept, "journals": some(k.journals), "freed": report.Freed, "policy": c.s.conf().policy().String()})
	}
	for _, d := range list {
		fmt.Fprintf(c.out, "%s  %s  %s  %s\n", d.ID, d.Workspace, d.At.Local().Format("2006-01-02 15:04:05"), d.Reason)
	}
	for _, j := range k.journals {
		fmt.Fprintf(c.out, "journal of %s  %s  %s\n", j.Session, j.Workspace, bytesText(j.Bytes))
	}
	if dry {
		_, err = fmt.Fprintf(c.out, "would drop %d snapshots and %d journals, and keep %d snapshots\n", len(list), len(k.journals), k.kept)
		return err
	}
	_, err = fmt.Fprintf(c.out, "dropped %d snapshots and %d journals, kept %d snapshots; %s came back\n", len(list), len(k.journals), k.kept, bytesText(report.Freed))
	return err
}

// bytesText shows a number of bytes as a person reads it.
func bytesText(n int64) string {
	if n < 0 {
		return "-" + bytesText(-n)
	}
	units := []string{"B", "KB", "MB", "GB", "TB"}
	f, i := float64(n), 0
	for f >= 1000 && i < len(units)-1 {
		f /= 1000
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// workspaceUsage is what one workspace takes. Its snapshots share a repository with others of it, so their bytes are
// the repository's.
type workspaceUsage struct {
	Name      string `json:"name"`
	Snapshots int    `json:"snapshots"`
	Store     int64  `json:"store_bytes"`
	Shared    bool   `json:"shared"` // other workspaces have snapshots in the same repository
	Sessions  int    `json:"sessions"`
	Journals  int64  `json:"journal_bytes"`
	Removed   bool   `json:"removed"` // the workspace is gone, its snapshots stay
}

type usageReport struct {
	Workspaces   []workspaceUsage `json:"workspaces"`
	Repositories []snapshot.Usage `json:"repositories"`
	Ledger       int64            `json:"ledger_bytes"`
	Index        int64            `json:"index_bytes"`
	Total        int64            `json:"total_bytes"`
	Free         int64            `json:"free_bytes"` // of the disk
	Limits       snapshot.Limits  `json:"limits"`
	Policy       string           `json:"policy"`
}

func (c *call) usageCommand() *cobra.Command {
	return &cobra.Command{Use: "usage [NAME]", Short: "what takes which space", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		only := ""
		if len(args) > 0 {
			d, err := c.workspace(args)
			if err != nil {
				return err
			}
			only = d.Name
		}
		u, err := c.s.usage(cmd.Context(), only)
		if err != nil {
			return err
		}
		if c.json {
			return c.print(u)
		}
		return c.showUsage(u)
	}}
}

func (s *Server) usage(ctx context.Context, only string) (usageReport, error) {
	u := usageReport{Workspaces: []workspaceUsage{}, Repositories: []snapshot.Usage{}, Limits: s.conf().limits(), Policy: s.conf().policy().String()}
	repos, ledger, err := s.snaps.Usage(ctx)
	if err != nil {
		return u, err
	}
	all, err := s.store.Workspaces()
	if err != nil {
		return u, err
	}
	rows := map[string]*workspaceUsage{}
	for _, d := range all {
		rows[d.Name] = &workspaceUsage{Name: d.Name}
	}
	for _, r := range repos {
		if only != "" && r.Workspaces[only] == 0 {
			continue
		}
		u.Repositories = append(u.Repositories, r)
		u.Total += r.Bytes
		for name, n := range r.Workspaces {
			if rows[name] == nil {
				rows[name] = &workspaceUsage{Name: name, Removed: true}
			}
			rows[name].Snapshots += n
			rows[name].Store += r.Bytes
			rows[name].Shared = rows[name].Shared || len(r.Workspaces) > 1
		}
	}
	for name, row := range rows {
		if only != "" && name != only {
			continue
		}
		sessions, _ := filepath.Glob(filepath.Join(s.workspaceDir(name), "sessions", "*"))
		row.Sessions = len(sessions)
		for _, dir := range sessions {
			row.Journals += folderSize(filepath.Join(dir, "journal"))
		}
		u.Total += row.Journals
		u.Workspaces = append(u.Workspaces, *row)
	}
	slices.SortFunc(u.Workspaces, func(a, b workspaceUsage) int { return int(min(max(b.Store+b.Journals-a.Store-a.Journals, -1), 1)) })
	if only == "" {
		u.Ledger, u.Index = ledger, folderSize(filepath.Join(s.opts.State, "store"))
		u.Total += u.Ledger + u.Index
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.opts.State, &st); err == nil {
		u.Free = int64(st.Bavail) * st.Bsize
	}
	return u, nil
}

func (c *call) showUsage(u usageReport) error {
	t := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "WORKSPACE\tSNAPSHOTS\tSTORE\tSESSIONS\tJOURNALS")
	for _, w := range u.Workspaces {
		note := ""
		if w.Shared {
			note = " (shared)"
		}
		if w.Removed {
			note += " (removed)"
		}
		fmt.Fprintf(t, "%s\t%d\t%s%s\t%d\t%s\n", w.Name, w.Snapshots, bytesText(w.Store), note, w.Sessions, bytesText(w.Journals))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range u.Repositories {
		fmt.Fprintf(c.out, "%s  %s, %d pack(s)\n", r.Path, bytesText(r.Bytes), r.Packs)
	}
	if u.Index > 0 {
		fmt.Fprintf(c.out, "ledger %s, index %s\n", bytesText(u.Ledger), bytesText(u.Index))
	}
	_, err := fmt.Fprintf(c.out, "total %s; %s free on the disk\nkept: %s\n", bytesText(u.Total), bytesText(u.Free), u.Policy)
	return err
}
