package store

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// writerDir makes a test binary the writer that TestKilledWriter kills.
const writerDir = "PERDURE_TEST_STORE_WRITER"

// probeArg makes a test binary the process that probes a store.
const probeArg = "probe-store"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == probeArg {
		os.Exit(ProbeHere(os.Args[2], os.Stdout))
	}
	if dir := os.Getenv(writerDir); dir != "" {
		writeForEver(dir)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// writeForEver prints the number of each event once it is acknowledged.
func writeForEver(dir string) {
	s, err := Open(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		e, err := s.AppendEvent(Event{Workspace: "auth", Kind: "bell"})
		if err == nil {
			err = s.PutRecord("auth", strconv.FormatUint(e.Seq, 10), 1, fmt.Append(nil, e.Seq))
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(e.Seq)
	}
}

// kill -9 loses no write that was acknowledged, however often.
func TestKilledWriter(t *testing.T) {
	dir := storeDir(t)
	var acked []string
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerDir+"="+dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n < 20+7*round && lines.Scan(); n++ {
			if _, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
				t.Fatalf("the writer: %s", lines.Text())
			}
			acked = append(acked, lines.Text())
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() { // acknowledged before it died
			acked = append(acked, lines.Text())
		}
		_ = cmd.Wait()
	}
	s := open(t, dir)
	events, err := s.Events("", 0, 0)
	must(t, err)
	records, err := s.Records("auth")
	must(t, err)
	kept := map[string]bool{}
	for _, r := range records {
		kept[string(r)] = true
	}
	for _, n := range acked {
		if seq, err := strconv.Atoi(n); err != nil || seq > len(events) || !kept[n] {
			t.Errorf("%s was acknowledged: %d events, its record there: %v", n, len(events), kept[n])
		}
	}
	for i, e := range events {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
}

// A power cut loses what wasn't synced, and a kill doesn't show the difference: what the store asks BadgerDB for does.
func TestEveryWriteIsSynced(t *testing.T) {
	if o := badgerOptions(storeDir(t)); !o.SyncWrites || o.ReadOnly || o.InMemory {
		t.Fatalf("sync %v, read-only %v, in memory %v", o.SyncWrites, o.ReadOnly, o.InMemory)
	}
}
