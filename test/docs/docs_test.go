// Package docs_test runs the commands that documents show, on a private OVN with a server,
// and holds what they print against what the documents say.
package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/lab"
	"github.com/ovn-vpc/ovn-vpc/lab/labtest"
	"github.com/ovn-vpc/ovn-vpc/test/program"
)

const root = "../.."

// bound is the longest that a document's commands may take.
const bound = 3 * time.Minute

func TestAPI(t *testing.T)           { play(t, "docs/api.md") }
func TestOrchestrators(t *testing.T) { play(t, "docs/orchestrators.md") }
func TestPolicy(t *testing.T)        { play(t, "docs/policy.md") }
func TestHistory(t *testing.T)       { play(t, "docs/history.md") }

// play runs the commands of a document's console blocks, in one shell.
func play(t *testing.T, path string) {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	path = filepath.Join(root, path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	blocks := parse(string(text))
	require.NotEmpty(t, blocks)
	out := run(ctx, t, blocks)
	var written strings.Builder
	i := 0
	for _, b := range blocks {
		written.WriteString(b.before)
		for _, c := range b.commands {
			fmt.Fprintf(&written, "$ %s\n%s", c.text, settled(out[i]))
			if !testflag.Update() {
				require.Equal(t, c.output, settled(out[i]), "%s: $ %s", path, c.text)
			}
			i++
		}
	}
	if testflag.Update() {
		require.NoError(t, os.WriteFile(path, []byte(written.String()), 0o644))
	}
}

// block is the text before a console block, with its fence, and its commands. The
// last block has none.
type block struct {
	before   string
	commands []command
}

type command struct{ text, output string }

func parse(text string) []block {
	const fence = "```console\n"
	var blocks []block
	for {
		before, rest, found := strings.Cut(text, fence)
		if !found {
			return append(blocks, block{before: text})
		}
		b := block{before: before + fence}
		inside, after, _ := strings.Cut(rest, "```\n")
		for line := range strings.Lines(inside) {
			switch n := len(b.commands); {
			case strings.HasPrefix(line, "$ "):
				b.commands = append(b.commands, command{text: strings.TrimSuffix(line[2:], "\n")})
			case n > 0 && b.commands[n-1].output == "" && goesOn(b.commands[n-1].text):
				b.commands[n-1].text += "\n" + strings.TrimSuffix(line, "\n")
			case n > 0:
				b.commands[n-1].output += line
			}
		}
		blocks, text = append(blocks, b), "```\n"+after
	}
}

// goesOn tells whether a command has another line: after a backslash, and
// within quotes.
func goesOn(command string) bool {
	return strings.HasSuffix(command, `\`) || strings.Count(command, "'")%2 == 1
}

// run plays the commands against a server and returns what each printed.
func run(ctx context.Context, t *testing.T, blocks []block) []string {
	ovnvpc := program.Build(t, root)
	sandbox := labtest.NewTestSandbox(t, lab.SandboxOptions{})
	url := program.Serve(t, ovnvpc, "--nb", sandbox.NB(), "--sb", sandbox.SB()).URL()
	var script strings.Builder
	const mark = "@@ end of output @@"
	count := 0
	for _, b := range blocks {
		for _, c := range b.commands {
			fmt.Fprintf(&script, "{ %s\n} 2>&1\nstatus=$?; [ $status = 0 ] || echo \"(exit code $status)\"\necho '%s'\n", c.text, mark)
			count++
		}
	}
	shell := exec.CommandContext(ctx, "bash", "-c", script.String())
	shell.Dir = root
	shell.Env = append(os.Environ(), "API="+url, "OVN_VPC_SERVER="+url, "OVN_NB_DB="+sandbox.NB(),
		"PATH="+filepath.Dir(ovnvpc)+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	var stdout bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, os.Stderr
	require.NoError(t, shell.Run(), stdout.String())
	parts := strings.Split(stdout.String(), mark+"\n")
	require.Len(t, parts, count+1)
	return parts[:count]
}

// settled puts a fixed text in the place of what differs from run to run.
func settled(out string) string {
	for _, s := range []struct{ find, put string }{
		{`(?mi)^(Date|X-Request-Id|Content-Length): .*\r?\n`, ""},
		{`"instance": ?"[^"]*"`, `"instance": "…"`},
		{`ovt_[A-Za-z0-9_-]+`, "ovt_…"},
		{`\b[0-9a-f]{64}\b`, "…"},
		{`(?m)^id: .*`, "id: …"},
		{`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b`, "2026-01-31T12:00:00Z"},
		{`\r`, ""},
	} {
		out = regexp.MustCompile(s.find).ReplaceAllString(out, s.put)
	}
	return out
}
