package nbdb

import (
	"encoding/json"
	"io"
	"math"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/cenkalti/rpc2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyJSON reads whatever comes as encoding/json would.
func anyJSON(s *scanner) any {
	switch s.next() {
	case '"':
		return s.text()
	case '[':
		list := []any{}
		s.array(func() { list = append(list, anyJSON(s)) })
		return list
	case '{':
		members := map[string]any{}
		s.object(func(name string) { members[name] = anyJSON(s) })
		return members
	case 't', 'f':
		return s.boolean()
	case 'n':
		s.word()
		return nil
	}
	return float64(s.integer())
}

// drawJSON is a value of the kinds that a database server writes.
func drawJSON(t *rapid.T, depth int) any {
	most := 5
	if depth == 0 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return rapid.String().Draw(t, "text")
	case 1:
		return float64(rapid.Int32().Draw(t, "number"))
	case 2:
		return rapid.Bool().Draw(t, "boolean")
	case 3:
		return nil
	case 4:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawJSON(t, depth-1)
		}
		return list
	}
	members := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		members[rapid.String().Draw(t, "name")] = drawJSON(t, depth-1)
	}
	return members
}

func TestScannerReadsWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawJSON(t, 3)
		for _, write := range []func(any) ([]byte, error){json.Marshal, func(v any) ([]byte, error) { return json.MarshalIndent(v, " ", "\t") }} {
			text, err := write(want)
			require.NoError(t, err)
			s := newScanner(text, newWords())
			got := anyJSON(s)
			require.NoError(t, s.err)
			require.Equal(t, len(text), s.at)
			require.Equal(t, want, got)
			s = newScanner(append(text, ','), nil)
			require.Equal(t, text, s.raw())
			require.NoError(t, s.err)
		}
	})
}

// FuzzScanner holds the scanner to encoding/json: what that reads it reads
// alike, and nothing makes it read beyond the end or for ever.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{`{"a":["map",[["k","v\n\u00e9\ud83d\ude00\\\""]]],"b":-12,"c":[true,false,null]}`, `"\ud800"`, `"\`, `[1,]`, `{"a"`, `[[[`, "\"\xff\"", `"\u12`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newScanner(text, newWords())
		got := anyJSON(s)
		newScanner(text, nil).raw()
		var want any
		if s.err != nil || json.Unmarshal(text, &want) != nil || !utf8.Valid(text) || strings.Contains(string(text), "-0") {
			return // of no server
		}
		written, err := json.Marshal(got)
		require.NoError(t, err)
		expected, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, string(expected), string(written))
	})
}

func TestRowsAreReadAsTheyAreWritten(t *testing.T) {
	text, err := os.ReadFile(packagedSchema)
	require.NoError(t, err)
	schema, err := ParseSchema(text)
	require.NoError(t, err)
	for _, want := range sample().Rows {
		rt := typeOf(want)
		row := map[string]any{columnUUID: ref(want.ID()), "of no field": []any{"set", []any{1, 2}}}
		v := reflect.ValueOf(want).Elem()
		for _, f := range rt.fields {
			if f.column == columnUUID {
				continue
			}
			wire, ok, err := schema.encode(rt.table, f.column, f.get(v))
			require.NoError(t, err)
			if ok {
				row[f.column] = wire
			}
		}
		text, err := json.Marshal(row)
		require.NoError(t, err)
		got := reflect.New(rt.typ).Interface().(Row)
		s := newScanner(text, newWords())
		rt.read(s, got)
		require.NoError(t, s.err)
		require.Equal(t, Columns(want), Columns(got))
		require.Equal(t, want.ID(), got.ID())
	}
}

func TestRowsThatCannotBeRead(t *testing.T) {
	for text, message := range map[string]string{
		`{"name":["set",["a","b"]]}`:          "table Logical_Switch_Port, column name: JSON, byte 20: several values where one is expected",
		`{"name":1}`:                          "where a text is expected",
		`{"name":["map",[]]}`:                 "a map where one value is expected",
		`{"up":"yes"}`:                        "column up: JSON, byte 6: no value",
		`{"up":maybe}`:                        `"maybe" where true or false is expected`,
		`{"tag":1.5}`:                         `"1.5" where a whole number is expected`,
		`{"tag":["set",[1,2]]}`:               "several values",
		`{"external_ids":["set",[]]}`:         "no map",
		`{"external_ids":["map",[["k",1]]]}`:  "column external_ids",
		`{"external_ids":["map",[["k","v"]]`:  "byte 34",
		`{"addresses":["set",["a",1]]}`:       "column addresses",
		`{"addresses":["set",["a"],"b"]}`:     `no ']'`,
		`["name"]`:                            "where an object is expected",
		`{"name":"a"`:                         `no ','`,
		`{"name"`:                             `no ':'`,
		`{"dhcpv4_options":["uuid","u","v"]}`: `no ']'`,
		`{"unknown":[1,2`:                     "a value without an end",
		`{"name":"\q"}`:                       "invalid character",
		`{"name":"a`:                          "a text without an end",
		`{"tag":}`:                            "no value",
	} {
		s := newScanner([]byte(text), newWords())
		rowTypes()[TableLogicalSwitchPort].read(s, &LogicalSwitchPort{})
		require.ErrorContains(t, s.err, message, text)
	}
}

// piped is a connection that reads a text byte by byte.
type piped struct {
	io.Reader
	io.Writer
}

func (piped) Close() error { return nil }

func TestMessages(t *testing.T) {
	var sent strings.Builder
	c := &codec{conn: piped{iotest.OneByteReader(strings.NewReader(` {"id":7,"result":[{"rows":[{"a":"}\"\\"}]}],"error":null}` + "\n" +
		`{"method":"echo","params":["x"],"id":"e"}{"error":{"details":"d","error":"syntax error"},"id":8,"result":null}` +
		`{"id":9,"error":"not here","result":null}{"id":10,"result":null,"error":null}`)), &sent}}
	header := func() (rpc2.Request, rpc2.Response) {
		var request rpc2.Request
		var response rpc2.Response
		require.NoError(t, c.ReadHeader(&request, &response))
		return request, response
	}
	_, response := header()
	require.Equal(t, rpc2.Response{Seq: 7}, response)
	var raw json.RawMessage
	require.NoError(t, c.ReadResponseBody(&raw))
	require.JSONEq(t, `[{"rows":[{"a":"}\"\\"}]}]`, string(raw))
	question, _ := header()
	require.Equal(t, "echo", question.Method)
	var args []any
	require.NoError(t, c.ReadRequestBody(&args))
	require.NoError(t, c.WriteResponse(&rpc2.Response{Seq: question.Seq}, args))
	require.JSONEq(t, `{"result":["x"],"error":null,"id":"e"}`, sent.String())
	for seq, message := range []string{`{"details":"d","error":"syntax error"}`, "not here", "an answer without a result"} {
		_, response = header()
		require.Equal(t, rpc2.Response{Seq: uint64(8 + seq), Error: message}, response)
		require.NoError(t, c.ReadResponseBody(nil))
	}
	require.ErrorIs(t, c.ReadHeader(&question, &response), io.EOF)
}

// However long its parts are, an answer to a transaction is read whole.
func TestAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []result
		operations := []string{}
		for range rapid.IntRange(0, 4).Draw(t, "operations") {
			row, err := json.Marshal(drawJSON(t, 2))
			require.NoError(t, err)
			times := rapid.SampledFrom([]int{1, 2, much, 2 * much}).Draw(t, "times")
			rows := "[" + strings.TrimSuffix(strings.Repeat(string(row)+",", times), ",") + "]"
			operations = append(operations, `{"uuid":["uuid","u"],"rows":`+rows+`,"details":"d"}`)
			want = append(want, result{Rows: json.RawMessage(rows), Details: "d"})
		}
		message := `{"id":7,"result":[` + strings.Join(operations, ", ") + `],"error":null}`
		c := &codec{conn: piped{strings.NewReader(message + message), io.Discard}}
		for range 2 {
			var response rpc2.Response
			require.NoError(t, c.ReadHeader(&rpc2.Request{}, &response))
			require.Equal(t, rpc2.Response{Seq: 7}, response)
			var answer scanner
			require.NoError(t, c.ReadResponseBody(&answer))
			got, err := readResults(&answer)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

func TestTextsWithoutAnEncoding(t *testing.T) {
	var sent strings.Builder
	c := &codec{conn: piped{strings.NewReader(""), &sent}}
	for _, params := range []any{"a\x00", `\` + "\x00", `\u0000` + "\x00", map[string]string{"\x00": "v"}, math.NaN()} {
		var unsendable *unsendableError
		require.ErrorAs(t, c.WriteRequest(&rpc2.Request{Method: "echo"}, params), &unsendable, "%q", params)
	}
	require.Empty(t, sent.String())
	for _, params := range []any{`\u0000`, `\\u0000`, "\x01"} {
		require.NoError(t, c.WriteRequest(&rpc2.Request{Method: "echo"}, params), "%q", params)
	}
}

func TestWhatIsNoMessage(t *testing.T) {
	for _, text := range []string{`x`, `"{}"`, `[]`, `{"method":1}`, `{"id":"a","result":1,"error":null}`, `{"result":1}`, `{"a" 1}`, `}`} {
		here, there := net.Pipe()
		go func() { _, _ = there.Write([]byte(text)); _ = there.Close() }()
		var request rpc2.Request
		var response rpc2.Response
		require.Error(t, (&codec{conn: here}).ReadHeader(&request, &response), text)
		require.NoError(t, here.Close())
	}
}
