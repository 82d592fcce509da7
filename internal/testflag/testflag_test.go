package testflag_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
)

func TestCases(t *testing.T) {
	require.Positive(t, testflag.Cases(7))
}

// Otherwise `go test ./... -cases 2000` fails.
func TestEveryTestKnowsTheFlags(t *testing.T) {
	const module = "github.com/ovn-vpc/ovn-vpc"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-test", "-json=ImportPath,Deps", module+"/...").Output()
	require.NoError(t, err)
	tests := 0
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		err := packages.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if strings.HasSuffix(p.ImportPath, ".test") {
			tests++
			require.Truef(t, slices.Contains(p.Deps, module+"/internal/testflag"),
				"the tests of %s import no testflag: import it, if only for its flags", strings.TrimSuffix(p.ImportPath, ".test"))
		}
	}
	require.Positive(t, tests)
}
