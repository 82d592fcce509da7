package nbdb

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What is encoded by hand is what encoding/json makes of it.
func TestTextsAreEncodedAsByTheLibrary(t *testing.T) {
	any := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), any, rapid.StringMatching(`[ -~]*`)).Draw(t, "text")
		want, err := encode(text)
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendText(nil, text)))
	})
}

func TestTransactionIsEncodedAsByTheLibrary(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z"\\{}<>&]{0,8}`))
	pairs := rapid.MapOf(texts, texts)
	value := rapid.OneOf(rapid.Map(texts, func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return n }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(pairs, func(m map[string]string) any { return wireMap(m) }),
		rapid.Map(rapid.SliceOf(texts), func(s []string) any { return wireTexts(s) }),
		rapid.Map(rapid.SliceOf(texts), func(s []string) any { return wireRefs[string](s) }),
		rapid.Map(texts, func(s string) any { return ref(UUID(s)) }), rapid.Map(texts, func(s string) any { return []any{"named-uuid", s} }))
	operation := rapid.Custom(func(t *rapid.T) ovsdb.Operation {
		op := ovsdb.Operation{Op: rapid.SampledFrom([]string{ovsdb.OperationInsert, ovsdb.OperationUpdate, ovsdb.OperationSelect}).Draw(t, "op"),
			Table: "ACL", Where: []ovsdb.Condition{{Column: "name", Function: ovsdb.ConditionEqual, Value: value.Draw(t, "where")}}}
		if op.Op == ovsdb.OperationInsert {
			op.Where, op.UUID, op.UUIDName = nil, texts.Draw(t, "uuid"), texts.Draw(t, "uuid-name")
		}
		if op.Op != ovsdb.OperationSelect {
			op.Row = rapid.MapOfN(texts, value, 1, -1).Draw(t, "row")
		}
		return op
	})
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOfN(operation, 1, 4).Draw(t, "operations")
		var want, got any
		all := []any{"OVN_Northbound"}
		for _, op := range ops {
			all = append(all, op)
		}
		text, err := json.Marshal(all)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &want))
		pieces, err := transaction("OVN_Northbound", ops)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(slices.Concat(pieces...), &got))
		for i, op := range ops {
			if members := got.([]any)[i+1].(map[string]any); op.Op == ovsdb.OperationSelect {
				require.Empty(t, members["sort"]) // the library has no such member
				delete(members, "sort")
			}
		}
		require.Equal(t, want, got)
	})
	_, err := transaction("OVN_Northbound", []ovsdb.Operation{{Op: ovsdb.OperationInsert, Table: "ACL", Row: ovsdb.Row{"name": func() {}}}})
	require.Error(t, err)
}
