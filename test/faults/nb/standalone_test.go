package nb_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/test/faults"
)

// A database that hangs for a while, or is killed, costs time and nothing else.
func TestStoppedAndRestarted(t *testing.T) {
	t.Parallel() // it waits most of the time
	box := labtest.NewTestSandbox(t, lab.SandboxOptions{NoNorthd: true})
	s, ctx := newStage(t, box.NB()), t.Context()
	s.found()
	l, r := s.begin(), s.ask()
	tried := testflag.Cases(4)
	for n := range tried {
		switch n % 2 {
		case 0:
			require.NoError(t, box.Signal(ctx, "nb", syscall.SIGSTOP))
			<-time.After(3 * time.Second)
			require.NoError(t, box.Signal(ctx, "nb", syscall.SIGCONT))
		case 1:
			require.NoError(t, box.Signal(ctx, "nb", syscall.SIGKILL))
			<-time.After(time.Second)
			require.NoError(t, box.Start(ctx))
		}
		t.Logf("fault %d: it serves again after %s", n, s.serves(ctx))
	}
	long := outage{what: "a database that hangs", from: time.Now()}
	require.NoError(t, box.Signal(ctx, "nb", syscall.SIGSTOP))
	s.swift()
	<-time.After(time.Until(long.from.Add(detection + slack + 2*time.Second)))
	long.until = time.Now()
	require.NoError(t, box.Signal(ctx, "nb", syscall.SIGCONT))
	t.Logf("a long stop: it serves again after %s", s.serves(ctx))
	r.end([]outage{long})
	l.end(box.NBCtl)
	faults.Audit(t, tried+1, database(box.Dir(), "nb"))
}
