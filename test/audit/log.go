// Package audit reads the log that an ovsdb-server keeps of its transactions,
// and proves of every state that was ever committed what the project promises
// of all of them. It replays rows and translates the specs that are stored in
// them; it knows nothing of plans, and does not ask the server.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Transaction is one committed transaction of a database's log.
type Transaction struct {
	// Number is that of the record in the file, as ovsdb-tool's show-log prints
	// it; of a clustered database it is the index in Raft's log.
	Number  int
	Date    time.Time
	Comment string
	// Whole says that the state begins anew with it: a snapshot.
	Whole bool
	// rows are the columns as the record has them, by table and UUID; null is a
	// row that was deleted.
	rows map[string]map[string]json.RawMessage
	// difference says that sets and maps stand there as what differs.
	difference bool
}

func (t Transaction) String() string {
	s := fmt.Sprintf("transaction %d (%s)", t.Number, t.Date.UTC().Format("15:04:05.000"))
	if t.Comment != "" {
		s += " " + strconv.Quote(t.Comment)
	}
	return s
}

// ReadLog calls visit for each committed transaction of a database file, of a
// standalone or a clustered server (ovsdb(5), Database File Format), in order.
// The file may be in use: a record that is not written whole yet is left out.
// What was compacted away is one transaction: the snapshot.
func ReadLog(path string, visit func(Transaction) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer file.Close()
	l := &logReader{visit: visit}
	records := bufio.NewReaderSize(file, 1<<20)
	for {
		magic, data, err := record(records)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err == nil {
			err = l.take(magic, data)
		}
		if err != nil {
			return fmt.Errorf("reading record %d of %s: %w", l.number, path, err)
		}
		l.number++
	}
}

// record is the next one: its header's magic, and its JSON.
func record(r *bufio.Reader) (magic string, data []byte, err error) {
	header, err := r.ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	fields := strings.Fields(header)
	if len(fields) != 4 || fields[0] != "OVSDB" {
		return "", nil, fmt.Errorf("%q is no header", header)
	}
	length, err := strconv.Atoi(fields[2])
	if err != nil {
		return "", nil, fmt.Errorf("its length: %w", err)
	}
	data = make([]byte, length)
	_, err = io.ReadFull(r, data)
	return fields[1], data, err
}

type logReader struct {
	visit  func(Transaction) error
	number int     // of the record
	log    []entry // of Raft, not known to be committed yet
}

// entry is one of Raft's log. Its data are a schema or null, and a transaction.
type entry struct {
	Index int               `json:"index"`
	Data  []json.RawMessage `json:"data"`
}

func (l *logReader) take(magic string, data []byte) error {
	if magic == "CLUSTER" {
		return l.clustered(data)
	}
	if l.number == 0 {
		return nil // the schema
	}
	tx, err := parse(data)
	if err != nil {
		return err
	}
	tx.Number = l.number
	return l.visit(tx)
}

// clustered takes a record of Raft's. An entry takes the place of those from its
// index on, and is committed when a later record says so.
func (l *logReader) clustered(data []byte) error {
	var r struct {
		entry
		CommitIndex  int               `json:"commit_index"`
		PrevIndex    int               `json:"prev_index"`
		PrevSnapshot []json.RawMessage `json:"prev_data"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	switch {
	case r.PrevSnapshot != nil:
		return l.commit(entry{Index: r.PrevIndex, Data: r.PrevSnapshot})
	case r.Index > 0:
		for n := len(l.log); n > 0 && l.log[n-1].Index >= r.Index; n-- {
			l.log = l.log[:n-1]
		}
		l.log = append(l.log, r.entry)
	}
	for len(l.log) > 0 && l.log[0].Index <= r.CommitIndex {
		if err := l.commit(l.log[0]); err != nil {
			return err
		}
		l.log = l.log[1:]
	}
	return nil
}

func (l *logReader) commit(e entry) error {
	if len(e.Data) != 2 {
		return nil // of Raft's own: a new term, new servers
	}
	tx, err := parse(e.Data[1])
	if err != nil {
		return err
	}
	tx.Number, tx.Whole = e.Index, !bytes.Equal(e.Data[0], []byte("null"))
	return l.visit(tx)
}

// parse reads the JSON of a transaction. Members that begin with an underscore
// are none of tables.
func parse(data []byte) (Transaction, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return Transaction{}, err
	}
	var special struct {
		Date       int64  `json:"_date"`
		Comment    string `json:"_comment"`
		Difference bool   `json:"_is_diff"`
	}
	if err := json.Unmarshal(data, &special); err != nil {
		return Transaction{}, err
	}
	tx := Transaction{Date: time.UnixMilli(special.Date), Comment: special.Comment, difference: special.Difference,
		rows: map[string]map[string]json.RawMessage{}}
	for table, rows := range members {
		if strings.HasPrefix(table, "_") {
			continue
		}
		var byUUID map[string]json.RawMessage
		if err := json.Unmarshal(rows, &byUUID); err != nil {
			return Transaction{}, fmt.Errorf("table %s: %w", table, err)
		}
		tx.rows[table] = byUUID
	}
	return tx, nil
}
