// Package examples_test applies every example to a real northbound database
// with the program itself, as its README says.
package examples_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
)

func TestExamples(t *testing.T) {
	binary := build(t)
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	tried := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		tried++
		t.Run(e.Name(), func(t *testing.T) {
			sandbox := labtest.NewTestSandbox(t, lab.SandboxOptions{VXLAN: true})
			p := program{t: t, binary: binary, env: sandbox.Env()}
			folder := "examples/" + e.Name() + "/"
			_, said := p.run(0, "", "validate", "-f", folder)
			require.Empty(t, said)
			p.run(2, "", "plan", "-f", folder, "--exit-code")
			p.run(0, "", "apply", "-f", folder, "--wait", "sb")
			p.settled(folder)
			p.steps(e.Name(), folder)
			p.readme(e.Name(), folder)
		})
	}
	require.GreaterOrEqual(t, tried, 7)
}

func build(t *testing.T) string {
	binary := filepath.Join(t.TempDir(), "ovn-vpc")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../cmd/ovn-vpc").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// program is ovn-vpc with a sandbox's databases, run in the project's root.
type program struct {
	t      *testing.T
	binary string
	env    []string
}

// run expects an exit code, and returns what was printed and what was said.
func (p program) run(code int, stdin string, args ...string) (stdout, stderr string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), p.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	err := cmd.Run()
	require.NotNil(p.t, cmd.ProcessState, "%v", err)
	require.Equal(p.t, code, cmd.ProcessState.ExitCode(), "ovn-vpc %v: %v\n%s%s", args, err, &out, &said)
	return out.String(), said.String()
}

// settled expects that nothing is left to do for a file or folder, for what is
// exported, and for drift.
func (p program) settled(path string) {
	p.t.Helper()
	p.run(0, "", "plan", "-f", path, "--exit-code")
	exported, _ := p.run(0, "", "export")
	p.run(0, exported, "plan", "-f", "-", "--exit-code")
	p.run(0, "", "drift", "--exit-code")
}

// steps applies the files of an example that follow on its folder.
func (p program) steps(example, folder string) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(example, "*.step"))
	require.NoError(p.t, err)
	for _, file := range files {
		step := folder + filepath.Base(file)
		p.run(0, "", "validate", "-f", step)
		p.run(2, "", "plan", "-f", step, "--exit-code")
		p.run(0, "", "apply", "-f", step, "--wait", "sb")
		p.settled(step)
	}
	if len(files) > 0 {
		p.run(2, "", "plan", "-f", folder, "--exit-code")
	}
}

// readme runs the program's commands in an example's README, in their order.
func (p program) readme(example, folder string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(example, "README.md"))
	require.NoError(p.t, err)
	require.Contains(p.t, string(text), "\n    ovn-vpc validate -f "+folder+"\n")
	require.Contains(p.t, string(text), "\n    ovn-vpc apply -f "+folder)
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    ovn-vpc "); ok {
			command, _, _ = strings.Cut(command, "#")
			p.run(0, "", strings.Fields(command)...)
		}
	}
}
