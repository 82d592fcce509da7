package main

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ovn-vpc": main, "http": httpMain})
}

// TestScript runs the scripts of testdata/script, each on a northbound
// database of its own; those named offline-* have none, those named still-* one
// without ovn-northd, and those named here-* one of this machine's OVN, whose
// other programs they run. Besides testscript's own commands they know:
//
//	exits CODE PROGRAM...  runs a program that has to end with the code
//	eventually PROGRAM...  runs a program again and again until it succeeds
//	nbctl ...              ovn-nbctl on the database
//	silent SOCKET          listens on a unix socket and never answers
//	connected SOCKET       waits until somebody has connected to it
//	freeport VARIABLE      sets it to a port that nobody listens on
//
// and the program `http` (httpMain).
func TestScript(t *testing.T) {
	for _, file := range scripts(t) {
		name := scriptName(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, file, scriptSandbox(t, name))
		})
	}
}

func scripts(t *testing.T) []string {
	files, err := filepath.Glob("testdata/script/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func scriptName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txtar") }

// scriptSandbox is the sandbox that a script asks for by its name, nil for none.
func scriptSandbox(t *testing.T, name string) *lab.Sandbox {
	if strings.HasPrefix(name, "offline-") {
		return nil
	}
	if strings.HasPrefix(name, "here-") {
		s, err := lab.SandboxUp(t.Context(), lab.SandboxOptions{Dir: labtest.TempDir(t)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Purge(context.Background())) })
		return s
	}
	return labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: strings.HasPrefix(name, "still-")})
}

// runScript runs one script, on a sandbox if there is one.
func runScript(t *testing.T, file string, s *lab.Sandbox, vars ...string) {
	examples, err := filepath.Abs("../../examples")
	require.NoError(t, err)
	vars = append(vars, "EXAMPLES="+examples, "BOX="+filepath.Join(labtest.TempDir(t), "box"), "HOME="+t.TempDir())
	quiet := silence{}
	commands := map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "eventually": eventually, "silent": quiet.listen, "connected": quiet.await, "freeport": freePort}
	if s != nil {
		vars = append(vars, s.Env()...)
		vars = append(vars, "NB="+s.NB(), "SB="+s.SB())
		commands["nbctl"] = nbctl(s)
	}
	testscript.Run(t, testscript.Params{
		Files: []string{file}, Cmds: commands, UpdateScripts: testflag.Update(), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, vars...)
			return nil
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s ended with %d, not %d", strings.Join(args[1:], " "), got, want)
	}
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: eventually PROGRAM...")
	}
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = ts.Exec(args[0], args[1:]...); err == nil {
			return
		}
	}
	ts.Fatalf("%s never succeeds: %v", strings.Join(args, " "), err)
}

func nbctl(s *lab.Sandbox) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		argv, err := s.Binaries().Argv("ovn-nbctl", append([]string{"--db=" + s.NB()}, args...)...)
		ts.Check(err)
		if err := ts.Exec(argv[0], argv[1:]...); (err != nil) != neg {
			ts.Fatalf("ovn-nbctl %s: %v", strings.Join(args, " "), err)
		}
	}
}

// silence are unix sockets that somebody listens on and nobody answers.
type silence map[string]chan net.Conn

func (s silence) listen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: silent SOCKET")
	}
	listener, err := net.Listen("unix", args[0])
	ts.Check(err)
	arrived := make(chan net.Conn, 100)
	s[args[0]] = arrived
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			arrived <- conn // kept open
		}
	}()
	ts.Defer(func() { ts.Check(listener.Close()) })
}

func (s silence) await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: connected SOCKET")
	}
	select {
	case conn := <-s[args[0]]:
		ts.Defer(func() { ts.Check(conn.Close()) })
	case <-time.After(10 * time.Second):
		ts.Fatalf("nobody connects to %s", args[0])
	}
}
