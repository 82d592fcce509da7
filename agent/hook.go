package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ovn-vpc/ovn-vpc/model"
)

// Execution is what became of a hook; it stands in the interface's
// external_ids as JSON.
type Execution struct {
	State   string  `json:"state"`
	Exit    *int    `json:"exit,omitempty"`    // of a hook that ended by itself
	Error   string  `json:"error,omitempty"`   // why it has not
	Started string  `json:"started,omitempty"` // RFC 3339
	Seconds float64 `json:"seconds,omitempty"` // how long it ran
	Output  string  `json:"output,omitempty"`  // the end of both its outputs
}

// The states of an execution.
const (
	hookPending     = "pending"
	hookRunning     = "running"
	HookDone        = "done"        // exit code 0
	hookFailed      = "failed"      // another exit code, or it could not be started
	hookRefused     = "refused"     // the program is not allowed
	hookTimeout     = "timeout"     // killed at the deadline
	hookInterrupted = "interrupted" // the agent ended while it ran
)

const (
	// hookOutput is how much of a hook's output is kept, in bytes.
	hookOutput = 1024
	// hookPipes is how long a killed hook's descendants may hold its output.
	hookPipes = time.Second
)

func (e Execution) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		return "" // there is no value of this type that can't be encoded
	}
	return string(text)
}

// executionOf reads what String has written; the zero value from any other text.
func executionOf(text string) Execution {
	var e Execution
	if json.Unmarshal([]byte(text), &e) != nil {
		return Execution{}
	}
	return e
}

// hooks runs programs of an allow-list.
type hooks struct {
	allowed []string // absolute paths
	timeout time.Duration
	now     func() time.Time
}

// run runs a hook to its end or its deadline, without a shell and with nothing
// of the agent's environment, in a process group of its own that is killed at
// the deadline. What of it survives that, as another group, is not waited for.
func (h hooks) run(ctx context.Context, argv []string, r record, ifname string) Execution {
	if !slices.Contains(h.allowed, argv[0]) {
		return Execution{State: hookRefused, Error: fmt.Sprintf("%s is not among the allowed programs", argv[0])}
	}
	limited, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	output := &tail{}
	cmd := exec.CommandContext(limited, argv[0], expand(argv[1:], r, ifname)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = "/", output, output, hookPipes
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// The signal comes at the death of the thread that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started := h.now()
	err := cmd.Run()
	e := Execution{Started: started.UTC().Format(time.RFC3339), Seconds: h.now().Sub(started).Round(time.Millisecond).Seconds(), Output: output.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		e.State, e.Error = hookInterrupted, "the agent was stopped"
	case limited.Err() != nil:
		e.State, e.Error = hookTimeout, fmt.Sprintf("it was killed after %s", h.timeout)
	case errors.As(err, &exit):
		code := exit.ExitCode()
		if e.State = hookFailed; code < 0 {
			e.Error = exit.Error() // a signal
		} else {
			e.Exit = &code
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		e.State, e.Error = hookFailed, err.Error()
	default:
		e.State, e.Exit = HookDone, new(int)
	}
	return e
}

// expand replaces ${ifname}, ${address} (the first, without a length) and
// ${mac}. Only what the spec says is looked at, not what was put in.
func expand(args []string, r record, ifname string) []string {
	replace := strings.NewReplacer(variables(map[string]string{
		"ifname": ifname, "address": r.Net.Addresses[0].Addr().String(), "mac": string(r.MAC),
	})...)
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = replace.Replace(arg)
	}
	return out
}

func variables(values map[string]string) []string {
	var pairs []string
	for _, name := range model.HookVariables() {
		pairs = append(pairs, "${"+name+"}", values[name])
	}
	return pairs
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if surplus := len(t.kept) - hookOutput; surplus > 0 {
		t.kept = append([]byte(nil), t.kept[surplus:]...)
	}
	return len(p), nil
}

// String is what was kept, as valid UTF-8.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
