// Package arch_test holds the project to its plan: which room may import
// which, what stands in one place alone, and what every kind has.
package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/ovn-vpc/ovn-vpc/internal/testflag"
)

const (
	module = "github.com/ovn-vpc/ovn-vpc/"
	root   = "../.."
)

// rooms lists for each folder of Go code the rooms that it may import, itself
// not named. Tests are free.
func rooms() map[string][]string {
	return map[string][]string{
		"model":             {"traffic"},
		"ipam":              {"model"},
		"nbdb":              {},
		"translate/match":   {},
		"translate":         {"model", "nbdb", "translate/match"},
		"engine":            {"model", "ipam", "nbdb", "translate", "translate/match", "trace", "traffic", "reach", "lint"},
		"trace":             {"model", "nbdb", "translate/match"},
		"traffic":           {},
		"reach":             {"model", "traffic"},
		"lint":              {"model", "ipam", "traffic", "reach"},
		"server":            {"engine", "trace", "model", "traffic", "reach"},
		"lab":               {},
		"lab/labtest":       {"lab"},
		"lab/scene":         {"lab", "model"},
		"agent":             {"model", "nbdb", "translate"},
		"client":            {"engine", "model", "reach"},
		"cmd/ovn-vpc":       {"engine", "server", "client", "trace", "lab", "model", "nbdb", "agent", "traffic", "reach", "lint"},
		"internal/testflag": {},
		"internal/golden":   {"internal/testflag"},
		"internal/arch":     {},
		"hack":              {"lab", "lab/scene"},
		"hack/bench":        {"lab", "client", "engine", "model", "nbdb"},
		"test":              {},
		"test/program":      {},
		"test/mirror":       {"client", "engine", "model"},
		"test/audit":        {"model", "nbdb", "translate"},
		"test/faults":       {"test/audit"},
		"examples":          {},
	}
}

// libraries lists the rooms that may use a library which stands for
// something: the connection, the command line, the network.
func libraries() map[string][]string {
	return map[string][]string{
		"github.com/ovn-kubernetes/libovsdb": {"nbdb", "hack/bench"},
		"github.com/cenkalti/rpc2":           {"nbdb"},
		"github.com/spf13/cobra":             {"cmd/ovn-vpc"},
		"gopkg.in/yaml.v3":                   {"model"},
		"github.com/vishvananda/":            {"lab", "agent"},
		"net/http":                           {"server", "client", "cmd/ovn-vpc", "hack/bench", "test/program"},
		"github.com/danielgtaylor/huma":      {"server"},
		"github.com/urfave/negroni":          {"server"},
		"github.com/insomniacslk/dhcp":       {"agent"},
		"os/exec":                            {"lab", "lab/scene", "trace", "hack", "hack/bench", "agent", "test/program"},
		"testing":                            {"lab/labtest", "test/program", "test/faults", "internal/golden"},
		"github.com/stretchr/testify":        {"lab/labtest", "test/program", "test/faults", "internal/golden"},
	}
}

// borrowed lists what a room may use of another one where that is not all:
// value types, and rows without the database around them.
func borrowed() map[[2]string][]string {
	return map[[2]string][]string{
		{"ipam", "model"}: {"MAC", "AddrRange"},
		{"translate", "nbdb"}: {
			"UUID", "Row", "Fragment", "Edge", "Entry", "KeyPrefix", "LogicalSwitch", "LogicalSwitchPort", "LogicalRouter",
			"LogicalRouterPort", "LogicalRouterPolicy", "ACL", "PortGroup", "DHCPOptions", "TableNBGlobal", "TableLogicalSwitch",
			"TableLogicalSwitchPort", "TableLogicalRouter", "TableLogicalRouterPort", "TableLogicalRouterPolicy", "TableACL",
			"TablePortGroup", "TableDHCPOptions",
		},
	}
}

type listed struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

// dependencies are the packages of the module and all that they need, tests
// left out.
func dependencies(t *testing.T) []listed {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Module", module+"...").Output()
	require.NoError(t, err)
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
}

// roomOf is the room that a package of the module belongs to: the longest
// that it lies in.
func roomOf(path string) string {
	found := ""
	for room := range rooms() {
		if (path == room || strings.HasPrefix(path, room+"/")) && len(room) > len(found) {
			found = room
		}
	}
	return found
}

func TestImportsRunOneWay(t *testing.T) {
	seen := 0
	for _, p := range dependencies(t) {
		path, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		seen++
		room := roomOf(path)
		require.NotEmptyf(t, room, "%s lies in no room: give it one in rooms, with what it may import", path)
		for _, imported := range p.Imports {
			if other, ours := strings.CutPrefix(imported, module); ours {
				require.Truef(t, roomOf(other) == room || slices.Contains(rooms()[room], roomOf(other)), "%s may not import %s", path, other)
				continue
			}
			for library, users := range libraries() {
				if strings.HasPrefix(imported, library) {
					require.Containsf(t, users, room, "%s may not import %s", path, imported)
				}
			}
		}
	}
	require.Greater(t, seen, 10)
}

// source is one Go file.
type source struct {
	path  string // from the module's root
	room  string
	test  bool
	fset  *token.FileSet
	file  *ast.File
	lines int
}

func (s source) at(n ast.Node) string {
	return s.path + ":" + s.fset.Position(n.Pos()).String()[len(filepath.Join(root, s.path))+1:]
}

func sources(t *testing.T) []source {
	var all []source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, source{path: name, room: roomOf(filepath.ToSlash(filepath.Dir(name))), test: strings.HasSuffix(path, "_test.go"),
			fset: fset, file: file, lines: fset.File(file.Pos()).LineCount()})
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 100)
	return all
}

func TestBorrowedNames(t *testing.T) {
	used := map[[2]string]bool{}
	for _, s := range sources(t) {
		for _, imported := range s.file.Imports {
			other, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), module)
			pair := [2]string{s.room, other}
			names, limited := borrowed()[pair]
			if s.test || !ours || !limited {
				continue
			}
			used[pair] = true
			require.Nilf(t, imported.Name, "%s renames %s", s.path, other)
			inspect(s, func(n *ast.SelectorExpr) {
				if of, ok := n.X.(*ast.Ident); ok && of.Name == filepath.Base(other) {
					require.Containsf(t, names, n.Sel.Name, "%s: %s.%s", s.at(n), of.Name, n.Sel.Name)
				}
			})
		}
	}
	require.Len(t, used, len(borrowed()))
}

func inspect[N ast.Node](s source, visit func(N)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if typed, ok := n.(N); ok {
			visit(typed)
		}
		return true
	})
}

// One call of transact, asked for in one place: what is written goes one way, with
// its preconditions.
func TestTransactIsCalledOnce(t *testing.T) {
	var calls, asked []string
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.room, "hack/") {
			continue
		}
		inspect(s, func(call *ast.CallExpr) {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Transact" {
				require.Equal(t, "nbdb", s.room, s.at(call))
				asked = append(asked, s.at(call))
			}
			for _, arg := range call.Args {
				if text, ok := arg.(*ast.BasicLit); ok && text.Value == `"transact"` {
					require.Equal(t, "nbdb", s.room, s.at(call))
					calls = append(calls, s.at(call))
				}
			}
		})
	}
	require.Len(t, asked, 1, "%v", asked)
	require.Len(t, calls, 1, "%v", calls)
}
