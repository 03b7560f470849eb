package server

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"
)

func TestSettingsAreWrittenAsTheyAreRead(t *testing.T) {
	s := DefaultSettings()
	check(t, s.Check())
	for text, want := range map[string]Duration{"90s": Duration(90 * time.Second), "30d": Duration(30 * 24 * time.Hour), "1h30m0s": Duration(90 * time.Minute)} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
		var again Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%s is written %s: %v", text, d, err)
		}
	}
	for text, want := range map[string]Size{"0B": 0, "1KiB": 1 << 10, "3 GiB": 3 << 30, "1025B": 1025} {
		var z, again Size
		if err := z.UnmarshalText([]byte(text)); err != nil || z != want {
			t.Errorf("%s: %v, %v", text, z, err)
		}
		if err := again.UnmarshalText([]byte(z.String())); err != nil || again != z {
			t.Errorf("%s is written %s: %v", text, z, err)
		}
	}
	for _, bad := range []string{"", "5", "-1d", "99999999d", "1.5d", "d"} {
		if new(Duration).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("the duration %q was read", bad)
		}
	}
	for _, bad := range []string{"", "5", "-1MiB", "99999999999TiB", "1.5GiB", "GB"} {
		if new(Size).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("the size %q was read", bad)
		}
	}
}

func TestStartupsGiveUpMoreTheMoreWait(t *testing.T) {
	var s Startups
	check(t, s.UnmarshalText([]byte("10:30:100")))
	for n, want := range map[int]int{0: 0, 9: 0, 10: 30, 55: 65, 100: 100, 1000: 100} {
		if got := s.chance(n); got != want {
			t.Errorf("%d wait: %d in a hundred, want %d", n, got, want)
		}
	}
}

// Attack 4: who fails again and again is kept out for a while, and nobody else is.
func TestPenaltiesAddUpAndEnd(t *testing.T) {
	var b penaltyBox
	now := time.Now()
	bad, good := sourceOf(netip.MustParseAddr("192.0.2.1")), sourceOf(netip.MustParseAddr("192.0.2.2"))
	for range 2 {
		b.add(bad, penaltyFailed, now)
	}
	if b.keeps(bad, now) {
		t.Error("kept out below the least penalty")
	}
	b.add(bad, penaltyFailed, now)
	if !b.keeps(bad, now) || !b.keeps(bad, now.Add(14*time.Second)) {
		t.Error("not kept out at the least penalty, until it is over")
	}
	if b.keeps(good, now) {
		t.Error("another source is kept out")
	}
	if b.keeps(bad, now.Add(15*time.Second)) {
		t.Error("kept out after the penalty is over")
	}
	for range 1000 {
		b.add(bad, penaltyLate, now)
	}
	if b.keeps(bad, now.Add(penaltyMost)) {
		t.Error("a penalty grows without bound")
	}
	for i := range 2 * maxPenalties {
		b.add(sourceOf(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})), penaltyNoAuth, now)
	}
	if len(b.until) > maxPenalties {
		t.Errorf("%d sources are remembered", len(b.until))
	}
	if sourceOf(netip.MustParseAddr("2001:db8::1")) != sourceOf(netip.MustParseAddr("2001:db8::ffff:1")) {
		t.Error("one host's addresses of IPv6 count apart")
	}
}

// At the door: three connections with a wrong key, then even the right one is turned away, before its handshake.
func TestSourceThatFailsIsTurnedAway(t *testing.T) {
	d := openDoor(t, whoCore, func(o *doorOptions) {
		o.DoorSettings = DefaultSettings().Door
		o.PenaltyExempt = nil
	})
	key := newTestKey(t)
	d.authorize(key.line(""))
	for range 3 {
		if _, err := d.dial("w", newTestKey(t)); err == nil {
			t.Fatal("a stranger entered")
		}
	}
	source := sourceOf(netip.MustParseAddr("127.0.0.1"))
	for deadline := time.Now().Add(20 * time.Second); !d.door.penalties.keeps(source, time.Now()) && time.Now().Before(deadline); {
		if c, err := d.dial("w", newTestKey(t)); err == nil { // each failure is judged when its connection has ended
			c.Close()
		}
	}
	if _, err := d.dial("w", key); err == nil {
		t.Error("the source that failed entered")
	}
	if d.door.counts.kept.Load() == 0 {
		t.Error("nobody was turned away")
	}
	settings := DefaultSettings()
	settings.AuthorizedKeys = []string{d.keyFile}
	d.door.apply(settings) // whose exemption of the loopback is in force at once
	if c, err := d.dial("w", key); err != nil {
		t.Error("an exempt source was turned away:", err)
	} else {
		c.Close()
	}
}

// certify has an authority sign a user's key.
func certify(t *testing.T, authority gossh.Signer, user gossh.Signer, change func(*gossh.Certificate)) gossh.Signer {
	t.Helper()
	c := &gossh.Certificate{Key: user.PublicKey(), CertType: gossh.UserCert, KeyId: "alice", Serial: 7, ValidPrincipals: []string{"me"},
		ValidAfter: uint64(time.Now().Add(-time.Minute).Unix()), ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
		Permissions: gossh.Permissions{CriticalOptions: map[string]string{}, Extensions: map[string]string{"permit-pty": "", "permit-port-forwarding": ""}}}
	if change != nil {
		change(c)
	}
	check(t, c.SignCert(rand.Reader, authority))
	s, err := gossh.NewCertSigner(c, user)
	check(t, err)
	return s
}

func TestCertificates(t *testing.T) {
	authority, other, user := newTestKey(t), newTestKey(t), newTestKey(t)
	from := netip.MustParseAddr("192.0.2.1")
	for name, c := range map[string]struct {
		options string
		change  func(*gossh.Certificate)
		by      gossh.Signer
		want    string // "" enters
	}{
		"plain":               {`cert-authority`, nil, nil, ""},
		"principal":           {`cert-authority,principals="a,ops"`, func(c *gossh.Certificate) { c.ValidPrincipals = []string{"x", "ops"} }, nil, ""},
		"wrong principal":     {`cert-authority,principals="a,ops"`, nil, nil, "for none of a, ops"},
		"another account":     {`cert-authority`, func(c *gossh.Certificate) { c.ValidPrincipals = []string{"you"} }, nil, "for none of me"},
		"expired":             {`cert-authority`, func(c *gossh.Certificate) { c.ValidBefore = uint64(time.Now().Add(-time.Second).Unix()) }, nil, "expired"},
		"not yet":             {`cert-authority`, func(c *gossh.Certificate) { c.ValidAfter = uint64(time.Now().Add(time.Hour).Unix()) }, nil, "not yet valid"},
		"host's":              {`cert-authority`, func(c *gossh.Certificate) { c.CertType = gossh.HostCert }, nil, "not a user's"},
		"another authority":   {`cert-authority`, nil, other, "permission denied"},
		"line is no CA":       {``, nil, nil, "permission denied"},
		"source":              {`cert-authority`, func(c *gossh.Certificate) { c.CriticalOptions["source-address"] = "192.0.2.0/24" }, nil, ""},
		"wrong source":        {`cert-authority`, func(c *gossh.Certificate) { c.CriticalOptions["source-address"] = "198.51.100.0/24" }, nil, "not for use from"},
		"bad source":          {`cert-authority`, func(c *gossh.Certificate) { c.CriticalOptions["source-address"] = "home" }, nil, "no network"},
		"unknown option":      {`cert-authority`, func(c *gossh.Certificate) { c.CriticalOptions["verify-moon"] = "" }, nil, "unsupported critical option"},
		"forced":              {`cert-authority`, func(c *gossh.Certificate) { c.CriticalOptions["force-command"] = "ls" }, nil, ""},
		"two commands":        {`cert-authority,command="cat"`, func(c *gossh.Certificate) { c.CriticalOptions["force-command"] = "ls" }, nil, "differ"},
		"line's own limits":   {`cert-authority,from="198.51.100.1"`, nil, nil, "not for use from"},
		"expired line":        {`cert-authority,expiry-time="20200101"`, nil, nil, "expired"},
		"principals, no CA":   {`principals="me"`, nil, nil, "permission denied"},
		"unknown line option": {`cert-authority,zone="x"`, nil, nil, "not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "keys")
			check(t, os.WriteFile(file, []byte(authority.line(c.options)), 0o600))
			by := c.by
			if by == nil {
				by = authority
			}
			key := certify(t, by, user, c.change).PublicKey()
			_, err := keyFiles{file}.admit(key, "me", from, time.Now())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// An authority's own key opens nothing, and a certificate permits only what it says.
func TestAuthorityIsNoUser(t *testing.T) {
	authority, user := newTestKey(t), newTestKey(t)
	file := filepath.Join(t.TempDir(), "keys")
	check(t, os.WriteFile(file, []byte(authority.line("cert-authority")), 0o600))
	admit := func(k gossh.PublicKey) (grant, error) {
		return keyFiles{file}.admit(k, "me", netip.MustParseAddr("192.0.2.1"), time.Now())
	}
	if _, err := admit(authority.PublicKey()); !errors.Is(err, errDenied) {
		t.Error("the authority's key entered:", err)
	}
	g, err := admit(certify(t, authority, user, func(c *gossh.Certificate) { c.Extensions = nil }).PublicKey())
	if err != nil || !g.noPty || !g.forward.none || !g.noAgent {
		t.Errorf("a certificate without extensions gives %+v, %v", g, err)
	}
}

// With the real client: ssh-keygen's certificate, through the door.
func TestCertificateEntersThroughTheDoor(t *testing.T) {
	d := openDoor(t, whoCore, func(o *doorOptions) { o.Login = "me" })
	authority, user := newTestKey(t), newTestKey(t)
	d.authorize(authority.line(`cert-authority,perdure-workspaces="w"`))
	c, err := d.dial("w", certify(t, authority, user, nil))
	check(t, err)
	c.Close()
	if _, err := d.dial("w", user); err == nil {
		t.Error("the key entered without its certificate")
	}
}

func TestQueueLetsInByTurn(t *testing.T) {
	var q queue
	q.setMax(1)
	first, err := q.enter(t.Context())
	check(t, err)
	in := make(chan func())
	go func() {
		leave, err := q.enter(t.Context())
		must(t, err)
		in <- leave
	}()
	for _, waiting := q.counts(); waiting == 0; _, waiting = q.counts() {
	}
	q.setMax(2) // while it is in use
	second := <-in
	first()
	first() // a second time counts for nothing
	second()
	if inside, waiting := q.counts(); inside != 0 || waiting != 0 {
		t.Errorf("%d inside, %d wait", inside, waiting)
	}
}
