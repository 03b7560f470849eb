package journal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

const writerEnv = "JOURNAL_TEST_WRITER"

// writeForEver appends and says how far it got, until it is killed.
func writeForEver(dir string) {
	j, err := Open(dir, Options{SegmentBytes: 100_000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, end := j.Bounds()
	for i := uint64(0); ; i++ {
		end, err = j.Append(pattern(end, end+1+i*997%40_000), time.Now())
		fmt.Println(end, err)
		if err != nil {
			os.Exit(1)
		}
	}
}

// What Append returned for is there after kill -9, and the next writer goes on.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var told uint64
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var problem string
			if _, err := fmt.Sscan(lines.Text(), &told, &problem); err != nil || problem != "<nil>" {
				t.Fatalf("writer: %s", strconv.Quote(lines.Text()))
			}
			if n == 20+round*13 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		r := mustReader(t, dir)
		start, end := r.Bounds()
		if start != 0 || end < told {
			t.Fatalf("told of %d bytes, %d to %d are there", told, start, end)
		}
		equal(t, "killed", readAll(t, r, 0, 60_000), pattern(0, end))
		closing(t, r)
	}
}
