package client

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// frame is one server-sent event.
type frame struct {
	event, id, data string
}

// frames reads server-sent events (WHATWG HTML, 9.2), of which no data and a
// line that was cut short are none.
type frames struct {
	r    *bufio.Reader
	size int // of the event that is being read
}

func newFrames(r io.Reader) *frames { return &frames{r: bufio.NewReader(r)} }

// next is the next event. Comments and fields that are not known are passed over.
func (s *frames) next() (frame, error) {
	var f frame
	var data []string
	for {
		line, err := s.line()
		switch {
		case err != nil:
			return frame{}, err
		case line == "" && data != nil:
			f.data = strings.Join(data, "\n")
			s.size = 0
			return f, nil
		case line == "":
			f, s.size = frame{}, 0
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			f.event = value
		case "id":
			f.id = value
		case "data":
			data = append(data, value)
		}
	}
}

func (s *frames) line() (string, error) {
	var line []byte
	for {
		part, err := s.r.ReadSlice('\n')
		line = append(line, part...)
		if s.size += len(part); s.size > maxAnswer {
			return "", errTooLarge
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
	}
}
