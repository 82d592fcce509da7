package arch_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	maxLines    = 500 // of a file
	maxFunction = 60  // lines of a function: about 60 is the aim
)

// matchText is what only OVN's expressions look like.
const matchText = `\b(inport|outport)\s*[!=]=|\b(eth|vlan|arp|nd|ip|ip4|ip6|tcp|udp|sctp|icmp|icmp4|icmp6|ct|ct_mark)\.` +
	`(src|dst|type|code|proto|ttl|mcast|bcast|tpa|spa|sll|tll|target|is_frag|first_frag|later_frag|flags|est|rel|rpl|trk)\b`

// A match that OVN can't parse is stored all the same, and its row is then
// forgotten: so one package writes them, from a tree.
func TestMatchTextIsWrittenInOnePlace(t *testing.T) {
	looks := regexp.MustCompile(matchText)
	require.Regexp(t, looks, `ip4.src == 10.0.0.0/8`)
	found := 0
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		inspect(s, func(literal *ast.BasicLit) {
			if literal.Kind != token.STRING {
				return
			}
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			if !looks.MatchString(text) {
				return
			}
			found++
			require.Equal(t, "translate/match", s.room, "%s: %q looks like a match", s.at(literal), text)
		})
	}
	require.Positive(t, found, "not even translate/match has a match")
}

func TestNoInitAndNoMutableGlobals(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.room == "internal/testflag" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				require.Falsef(t, d.Recv == nil && d.Name.Name == "init", "%s: init()", s.at(d))
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						require.Truef(t, fixed(v) || embedded(d), "%s: the package variable %s: pass it, or make it a function", s.at(v), v.Names[0])
					}
				}
			}
		}
	}
}

// embedded tells whether a declaration is of a file that is compiled in.
func embedded(d *ast.GenDecl) bool {
	return d.Doc != nil && slices.ContainsFunc(d.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// fixed tells whether a package variable is one that nobody has a reason to
// assign: an error to compare with, an array, a value made once on demand, an
// assertion of the compiler's.
func fixed(v *ast.ValueSpec) bool {
	if v.Names[0].Name == "_" {
		return true
	}
	for _, value := range v.Values {
		switch value := value.(type) {
		case *ast.CompositeLit:
			if array, ok := value.Type.(*ast.ArrayType); !ok || array.Len == nil {
				return false
			}
		case *ast.CallExpr:
			f := value.Fun
			if generic, ok := f.(*ast.IndexExpr); ok {
				f = generic.X
			}
			selector, ok := f.(*ast.SelectorExpr)
			if !ok {
				return false
			}
			switch from := selector.X.(*ast.Ident); from.Name + "." + selector.Sel.Name {
			case "errors.New", "sync.OnceValue", "sync.OnceValues":
			default:
				return false
			}
		default:
			return false
		}
	}
	return len(v.Values) == len(v.Names)
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		require.LessOrEqual(t, s.lines, maxLines, s.path)
		if s.test {
			continue
		}
		inspect(s, func(f *ast.FuncDecl) {
			lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			require.LessOrEqual(t, lines, maxFunction, "%s: %s", s.at(f), f.Name)
		})
	}
}
