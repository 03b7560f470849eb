package server

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perdure/snapshot"
	"perdure/workspace/agent"
)

// Settings are what the configuration file says of the server, by the names that it has there. DefaultSettings holds
// the values of what it leaves out.
type Settings struct {
	Listen         []string         `toml:"listen"`          // TCP addresses; "none" alone disables the network
	AuthorizedKeys []string         `toml:"authorized_keys"` // files in authorized_keys form, read anew at each login
	Metrics        string           `toml:"metrics"`         // where Prometheus may ask, on the loopback; "" is nowhere
	LogLevel       slog.Level       `toml:"log_level"`
	Door           DoorSettings     `toml:"door"`
	Checks         CheckSettings    `toml:"checks"`
	Snapshots      SnapshotSettings `toml:"snapshots"`
	Keep           KeepSettings     `toml:"keep"`
	Journal        JournalSettings  `toml:"journal"`
	Agents         AgentSettings    `toml:"agents"` // presets of the person's own, by name
}

// AgentSettings are the tables [agents.NAME] (workspace/agent/FORMAT.md).
type AgentSettings map[string]agent.Preset

// DoorSettings bound what those may do who are not inside yet, and how long silence is taken for life.
type DoorSettings struct {
	Grace           Duration `toml:"login_grace"`      // to authenticate in
	Tries           int      `toml:"auth_tries"`       // of one connection
	Startups        Startups `toml:"max_startups"`     // connections that have not authenticated
	Keepalive       Duration `toml:"keepalive"`        // how often a client is asked for a sign of life
	Dead            Duration `toml:"dead_after"`       // the silence after which a client is detached
	Penalties       bool     `toml:"penalties"`        // whether a source that fails is kept out for a while
	PenaltyExempt   []string `toml:"penalty_exempt"`   // networks in CIDR form that are never kept out
	Forwarding      bool     `toml:"forwarding"`       // whether keys may forward at all
	AgentForwarding bool     `toml:"agent_forwarding"` // whether keys may lend their SSH agent to a workspace
	GatewayPorts    bool     `toml:"gateway_ports"`    // whether -R may listen beyond the loopback where a key's permitlisten names the address
}

// CheckSettings bound the checks of the box.
type CheckSettings struct {
	Parallel  int  `toml:"parallel"`  // how many run at one time
	Processes int  `toml:"processes"` // of one check, at one time
	Memory    Size `toml:"memory"`    // of one check, all its processes together; 0 is no limit
}

// SnapshotSettings are the caps of snapshots (snapshot.Limits).
type SnapshotSettings struct {
	File  Size `toml:"max_file"`
	Each  Size `toml:"max_new"`
	Store Size `toml:"max_store"`
	Free  Size `toml:"keep_free"`
}

// KeepSettings say how long what is kept (snapshot.Policy), counted from now back.
type KeepSettings struct {
	All      Duration `toml:"all"`
	Hourly   Duration `toml:"hourly"`
	Daily    Duration `toml:"daily"`
	Weekly   Duration `toml:"weekly"`
	Journals Duration `toml:"journals"` // of ended sessions; the newest session's stays
}

// JournalSettings bound the journal of a session that starts from now on.
type JournalSettings struct {
	Size Size `toml:"size"`
}

// DefaultSettings holds where nothing else is said. The key files depend on the person, and are not among it.
func DefaultSettings() Settings {
	l, p := snapshot.DefaultLimits, snapshot.DefaultPolicy
	return Settings{
		Listen:   []string{":2222"},
		LogLevel: slog.LevelWarn,
		Door: DoorSettings{Grace: Duration(graceTime), Tries: maxAuthTries, Startups: Startups{Start: 50, Rate: 30, Full: maxWaiting},
			Keepalive: Duration(keepaliveEvery), Dead: Duration(deadAfter), Penalties: true, PenaltyExempt: []string{"127.0.0.0/8", "::1/128"},
			Forwarding: true, AgentForwarding: true, GatewayPorts: true},
		Checks:    CheckSettings{Parallel: 2, Processes: 4096, Memory: mostMemory()},
		Snapshots: SnapshotSettings{File: Size(l.File), Each: Size(l.Snapshot), Store: Size(l.Store), Free: Size(l.Free)},
		Keep:      KeepSettings{All: Duration(p.All), Hourly: Duration(p.Hourly), Daily: Duration(p.Daily), Weekly: Duration(p.Weekly), Journals: Duration(journalsFor)},
		Journal:   JournalSettings{Size: 64 << 20},
	}
}

// mostMemory is four fifths of the machine's: beyond them it may begin to swap, and the kernel to kill. 0 where it can't be told.
func mostMemory() Size {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	const mib = 1 << 20
	return Size(uint64(info.Totalram) * uint64(info.Unit) / 5 * 4 / mib * mib)
}

// Check says which value can't be meant.
func (s Settings) Check() error {
	if s.Metrics != "" {
		host, _, err := net.SplitHostPort(s.Metrics)
		if err != nil || !loopback(host) {
			return fmt.Errorf("metrics: %q is not HOST:PORT with a loopback address: anyone could read it", s.Metrics)
		}
	}
	d := s.Door
	for _, c := range []struct {
		name        string
		value       Duration
		least, most time.Duration
	}{
		{"door.login_grace", d.Grace, time.Second, 10 * time.Minute},
		{"door.keepalive", d.Keepalive, time.Second, time.Hour},
		{"door.dead_after", d.Dead, time.Second, time.Hour},
		{"keep.all", s.Keep.All, 0, math.MaxInt64}, {"keep.hourly", s.Keep.Hourly, 0, math.MaxInt64},
		{"keep.daily", s.Keep.Daily, 0, math.MaxInt64}, {"keep.weekly", s.Keep.Weekly, 0, math.MaxInt64},
		{"keep.journals", s.Keep.Journals, 0, math.MaxInt64},
	} {
		if v := time.Duration(c.value); v < c.least || v > c.most {
			return fmt.Errorf("%s: %s is not between %s and %s", c.name, c.value, Duration(c.least), Duration(c.most))
		}
	}
	for _, c := range []struct {
		name        string
		value       int64
		least, most int64
	}{
		{"door.auth_tries", int64(d.Tries), 1, 100},
		{"checks.parallel", int64(s.Checks.Parallel), 1, 1024},
		{"checks.processes", int64(s.Checks.Processes), 16, 1 << 22}, {"checks.memory", int64(s.Checks.Memory), 0, math.MaxInt64},
		{"journal.size", int64(s.Journal.Size), 1 << 20, 1 << 40},
		{"snapshots.max_file", int64(s.Snapshots.File), 0, math.MaxInt64}, {"snapshots.max_new", int64(s.Snapshots.Each), 0, math.MaxInt64},
		{"snapshots.max_store", int64(s.Snapshots.Store), 0, math.MaxInt64}, {"snapshots.keep_free", int64(s.Snapshots.Free), 0, math.MaxInt64},
	} {
		if c.value < c.least || c.value > c.most {
			return fmt.Errorf("%s: %d is not between %d and %d", c.name, c.value, c.least, c.most)
		}
	}
	if _, err := parseNetworks(d.PenaltyExempt); err != nil {
		return fmt.Errorf("door.penalty_exempt: %w", err)
	}
	_, err := agent.With(s.Agents)
	return err
}

func (s Settings) limits() snapshot.Limits {
	c := s.Snapshots
	return snapshot.Limits{File: int64(c.File), Snapshot: int64(c.Each), Store: int64(c.Store), Free: int64(c.Free)}
}

func (s Settings) policy() snapshot.Policy {
	k := s.Keep
	return snapshot.Policy{All: time.Duration(k.All), Hourly: time.Duration(k.Hourly), Daily: time.Duration(k.Daily), Weekly: time.Duration(k.Weekly)}
}

// Duration is written as time.ParseDuration reads it, or as a number of days: "90s", "12h", "30d".
type Duration time.Duration

// UnmarshalText reads the written form.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > uint64(math.MaxInt64/(24*time.Hour)) {
			return fmt.Errorf("%q is no number of days", s)
		}
		*d = Duration(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf(`%q is no duration, such as "90s", "12h" or "30d"`, s)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string {
	v := time.Duration(d)
	if day := 24 * time.Hour; v >= day && v%day == 0 {
		return fmt.Sprintf("%dd", v/day)
	}
	return v.String()
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes, written with one of the units B, KiB, MiB, GiB and TiB: "512MiB".
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads the written form.
func (z *Size) UnmarshalText(text []byte) error {
	s := string(text)
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		*z = Size(n * u.bytes)
		return nil
	}
	return fmt.Errorf(`%q is no size, such as "512MiB"`, s)
}

func (z Size) String() string {
	for _, u := range sizeUnits {
		if n := int64(z); n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return "0B"
}

// MarshalText writes what UnmarshalText reads.
func (z Size) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// Startups bound the connections that have not authenticated, as sshd_config(5) has it for MaxStartups: from Start on
// a connection is given up with a chance of Rate in a hundred, which rises to all of them at Full.
type Startups struct{ Start, Rate, Full int }

// UnmarshalText reads START:RATE:FULL, or FULL alone.
func (s *Startups) UnmarshalText(text []byte) error {
	words := strings.Split(string(text), ":")
	bad := fmt.Errorf(`%q is not START:RATE:FULL, such as "50:30:100"`, text)
	n := make([]int, len(words))
	for i, w := range words {
		v, err := strconv.ParseUint(w, 10, 16)
		if err != nil || v == 0 {
			return bad
		}
		n[i] = int(v)
	}
	switch {
	case len(n) == 1:
		*s = Startups{n[0], 100, n[0]}
	case len(n) == 3 && n[0] <= n[2] && n[1] <= 100:
		*s = Startups{n[0], n[1], n[2]}
	default:
		return bad
	}
	return nil
}

func (s Startups) String() string { return fmt.Sprintf("%d:%d:%d", s.Start, s.Rate, s.Full) }

// MarshalText writes what UnmarshalText reads.
func (s Startups) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// chance is that of giving one up, in a hundred, while n wait.
func (s Startups) chance(n int) int {
	switch {
	case n < s.Start:
		return 0
	case n >= s.Full:
		return 100
	}
	return s.Rate + (100-s.Rate)*(n-s.Start)/(s.Full-s.Start)
}

// errNeedsRestart marks a change that a running server can't follow.
var errNeedsRestart = errors.New("takes effect at the next start")
