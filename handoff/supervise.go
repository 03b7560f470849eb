package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// SuperviseCommand is the argument with which a binary that runs checks is started again, to call Supervise.
const SuperviseCommand = "supervise-check"

// Limits bound what a check may take of the machine. 0 is no limit.
type Limits struct {
	Processes int   // at one time
	Memory    int64 // bytes, of all its processes together
}

// job is what a supervisor is told to run.
type job struct {
	Argv, Env []string
	Dir, Mark string
	Limits    Limits
	Remove    []string // folders that go with the check
}

// ending is what a supervisor tells once nothing of its check is left.
type ending struct {
	Failed string // why the command could not be started
	Exit   int    // 128 and the signal where one ended it
	Left   int    // processes that the command left behind
	Stuck  int    // processes that could not be ended
	Limit  string // the problem, where a limit ended it
	Found  string // what went beyond it
}

// The orders to a supervisor. The end of the pipe, which the server's death brings about, means orderEnd.
const (
	orderTerm = 't' // ask the command to end
	orderEnd  = 'e' // end everything now
)

// supervised is a check on its way, below its supervisor.
type supervised struct {
	cmd    *exec.Cmd
	orders *os.File
	ended  chan ending // gets one; closed without one if the supervisor was killed
}

// supervise starts a job below a supervisor of its own, its output going to out.
func (r *Runner) supervise(j job, out *os.File) (*supervised, error) {
	if len(r.Supervisor) == 0 {
		return nil, errors.New("the runner has no supervisor")
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("tell the supervisor: %w", err)
	}
	orders, ordersEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	defer orders.Close()
	told, telling, err := os.Pipe()
	if err != nil {
		ordersEnd.Close()
		return nil, fmt.Errorf("pipe: %w", err)
	}
	defer telling.Close()
	cmd := exec.Command(r.Supervisor[0], r.Supervisor[1:]...)
	cmd.Env = []string{"GORACE=" + os.Getenv("GORACE")} // a check can read its parent's environment
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{orders, telling}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		ordersEnd.Close()
		told.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	s := &supervised{cmd: cmd, orders: ordersEnd, ended: make(chan ending, 1)}
	go s.listen(told)
	// Whatever is wrong with the pipe, the supervisor's own end tells it.
	_, _ = ordersEnd.Write(append(text, '\n'))
	return s, nil
}

func (s *supervised) listen(told *os.File) {
	defer close(s.ended)
	defer told.Close()
	var e ending
	err := json.NewDecoder(told).Decode(&e)
	_ = s.cmd.Wait()
	s.orders.Close()
	if err == nil {
		s.ended <- e
	}
}

func (s *supervised) order(what byte) { _, _ = s.orders.Write([]byte{what}) }
