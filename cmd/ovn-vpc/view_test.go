package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/ovn-vpc/ovn-vpc/agent"
	"github.com/ovn-vpc/ovn-vpc/engine"
	"github.com/ovn-vpc/ovn-vpc/internal/testflag"
	"github.com/ovn-vpc/ovn-vpc/nbdb"
)

// shown runs a view and returns what it writes.
func shown(t *testing.T, color bool, view func(*app)) []byte {
	var out bytes.Buffer
	a := newApp(nil, &out, io.Discard, func(string) string { return "" })
	a.color = color
	view(a)
	require.NoError(t, a.out.Flush())
	return out.Bytes()
}

// TestViews shows the data of each archive (plan.json, result.json,
// drift.json or status.json) and compares with its other files: text, rows and color.
func TestViews(t *testing.T) {
	paths, err := filepath.Glob("testdata/view/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			require.NoError(t, err)
			view := viewOf(t, archive.Files[0])
			for i, f := range archive.Files[1:] {
				got := shown(t, f.Name == "color", func(a *app) { view(a, f.Name == "rows") })
				if testflag.Update() {
					archive.Files[i+1].Data = got
					continue
				}
				require.Equal(t, string(f.Data), string(got), f.Name)
			}
			if testflag.Update() {
				require.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o644))
			}
		})
	}
}

func viewOf(t *testing.T, f txtar.File) func(a *app, rows bool) {
	decode := func(into any) {
		decoder := json.NewDecoder(bytes.NewReader(f.Data))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(into))
	}
	switch f.Name {
	case "plan.json":
		p := &engine.Plan{}
		decode(p)
		return func(a *app, rows bool) { a.showPlan(p, rows) }
	case "result.json":
		r := &engine.Result{}
		decode(r)
		return func(a *app, _ bool) { a.showDone(r, nil) }
	case "drift.json":
		r := &engine.DriftReport{}
		decode(r)
		return func(a *app, _ bool) { a.showDrift(r) }
	case "status.json":
		var all []agent.Status
		decode(&all)
		return func(a *app, _ bool) { require.NoError(t, a.statusTable(all)) }
	}
	t.Fatalf("unknown data %s", f.Name)
	return nil
}

func TestColorOnTerminalsAlone(t *testing.T) {
	a := newApp(nil, &bytes.Buffer{}, io.Discard, func(string) string { return "" })
	require.False(t, a.color)
	require.False(t, a.tty)
	require.Nil(t, a.progress())
}

func TestProgress(t *testing.T) {
	var errs bytes.Buffer
	a := newApp(nil, io.Discard, &errs, func(string) string { return "" })
	a.tty = true
	progress := a.progress()
	progress(1, 1)
	require.Empty(t, errs.String(), "one transaction needs no progress")
	progress(1, 2)
	progress(2, 2)
	require.Equal(t, "\r1 of 2 transactions\r2 of 2 transactions\n", errs.String())
}

// TestPartialFailure is what scripts see of an apply that failed on the way.
func TestPartialFailure(t *testing.T) {
	var out, errs bytes.Buffer
	a := newApp(nil, &out, &errs, func(string) string { return "" })
	a.started, a.output = true, outputJSON
	result := &engine.Result{VPCs: []engine.VPCResult{{VPC: "a", Landed: 1, Planned: 1, Done: true}, {VPC: "b", Planned: 1, Error: "gone"}}}
	require.Equal(t, exitFailure, a.finish(a.showResult(result, io.ErrUnexpectedEOF)))
	var got failure
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, "unexpected EOF", got.Error)
	require.Equal(t, result.VPCs, got.VPCs)
	require.Equal(t, "error: unexpected EOF\n", errs.String())
}

// TestUnknownOutcome: where no answer came, nothing is said about what the
// database holds.
func TestUnknownOutcome(t *testing.T) {
	result := &engine.Result{VPCs: []engine.VPCResult{{VPC: "a", Planned: 1, Error: "no answer"}}}
	err := &engine.ConflictError{Err: &nbdb.UnknownOutcomeError{Err: io.EOF}}
	got := string(shown(t, false, func(a *app) { a.showDone(result, err) }))
	require.Contains(t, got, "not known")
	require.NotContains(t, got, "Nothing")
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{
		exitDone: nil, exitFailure: &engine.NotFoundError{}, exitPending: errPending,
		exitInvalid: usagef("x"), exitConflict: &engine.ConflictError{Err: io.EOF},
	} {
		require.Equal(t, want, exitCode(err))
		if err != nil {
			require.Equal(t, want, exitCode(&partialError{err, &engine.Result{}}))
		}
	}
	require.Equal(t, exitInvalid, exitCode(&engine.InvalidError{}))
}
