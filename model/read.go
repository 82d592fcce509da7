package model

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// MaxFileSize bounds one file of input, in bytes.
const MaxFileSize = 64 << 20

// ReadPaths reads files, folders (every *.yaml, *.yml and *.json below, in
// the order of their names, without those that begin with a dot) and, for
// "-", standard input. What can't be read is reported; the rest is returned.
func ReadPaths(paths []string, stdin io.Reader) ([]Input, Diagnostics) {
	r := &reader{stdin: stdin}
	for _, path := range paths {
		r.path(path)
	}
	return r.inputs, r.found
}

type reader struct {
	stdin  io.Reader
	inputs []Input
	found  Diagnostics
}

func (r *reader) fault(level Level, file, problem, fix string) {
	r.found = append(r.found, Diagnostic{Severity: level, File: file, Problem: problem, Fix: fix})
}

func (r *reader) path(path string) {
	if path == "-" {
		if r.stdin == nil {
			r.fault(LevelError, path, "standard input is given twice", "name it once")
			return
		}
		r.read("<stdin>", r.stdin)
		r.stdin = nil
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.failed(path, err)
	case info.IsDir():
		r.folder(path)
	default:
		r.file(path)
	}
}

func (r *reader) failed(path string, err error) {
	if pathErr, ok := err.(*fs.PathError); ok {
		err = pathErr.Err
	}
	r.fault(LevelError, path, "can't be read: "+err.Error(), "check the path and its permissions")
}

func (r *reader) file(path string) {
	f, err := os.Open(path)
	if err != nil {
		r.failed(path, err)
		return
	}
	defer f.Close() // only read from: nothing is lost by an error
	r.read(path, f)
}

func (r *reader) read(name string, from io.Reader) {
	data, err := io.ReadAll(io.LimitReader(from, MaxFileSize+1))
	if err != nil {
		r.failed(name, err)
		return
	}
	if len(data) > MaxFileSize {
		r.fault(LevelError, name, fmt.Sprintf("is larger than %d MiB", MaxFileSize>>20), "split it into several files")
		return
	}
	r.inputs = append(r.inputs, Input{Name: name, Data: data})
}

func (r *reader) folder(root string) {
	before := len(r.inputs) + len(r.found)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		full := filepath.Join(root, filepath.FromSlash(name))
		switch {
		case err != nil:
			r.failed(full, err)
			return nil
		case name == ".":
			return nil
		case strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		extension := strings.ToLower(path.Ext(name))
		if slices.Contains([]string{".yaml", ".yml", ".json"}, extension) && isFile(full, entry) {
			r.file(full)
		}
		return nil
	})
	if err != nil {
		r.failed(root, err)
	}
	if len(r.inputs)+len(r.found) == before {
		r.fault(LevelWarning, root, "holds no *.yaml, *.yml or *.json", "is it the right folder?")
	}
}

// isFile tells whether an entry is a regular file or a link to one: pipes and
// devices in a folder would block.
func isFile(full string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return entry.Type().IsRegular()
	}
	info, err := os.Stat(full)
	return err != nil || info.Mode().IsRegular() // a dangling link is reported when it is opened
}
