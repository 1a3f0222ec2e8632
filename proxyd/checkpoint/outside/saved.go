// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
)

// Connection is the state of a connection in a checkpoint.
type Connection struct {
	forward.SavedConnection
	Socket *overlay.Connection `json:"socket"`
}

// Save writes the state of the capsule's connections for a checkpoint, and returns their number. The network of the
// capsule is locked, and its programs stand still. The forwarder stands still after that, until Continue. The
// connections are written one by one: a user decides how many there are, and they must not fill the memory of root's
// daemon.
func (f *Forwarder) Save(ctx context.Context, w io.Writer) (n int, err error) {
	f.answers.withholdAnswers()
	list := &listWriter{w: w}
	err = f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error {
		return o.Hold(ctx, func(some []forward.SavedConnection, sockets []*os.File) error {
			for i, s := range some {
				socket, unread, unsent, err := overlay.TakeConnection(sockets[i])
				if errors.Is(err, overlay.ErrNotConnected) {
					continue // over at the program's end
				}
				if err == nil {
					err = list.addConnection(joinSocket(s, socket, unread, unsent))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil {
		err = list.endList()
	}
	return list.n, err
}

// listWriter writes a list in JSON, an element at a time.
type listWriter struct {
	w io.Writer
	n int
}

func (l *listWriter) addConnection(c Connection) error {
	before := ","
	if l.n == 0 {
		before = "["
	}
	l.n++
	if _, err := io.WriteString(l.w, before); err != nil {
		return err
	}
	return json.NewEncoder(l.w).Encode(c)
}

func (l *listWriter) endList() error {
	text := "]\n"
	if l.n == 0 {
		text = "[]\n"
	}
	_, err := io.WriteString(l.w, text)
	return err
}

// readList calls f with the elements of such a list.
func readList(r io.Reader, f func(Connection) error) error {
	d := json.NewDecoder(r)
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(errors.New("not a list"), err)
	}
	for d.More() {
		var c Connection
		if err := d.Decode(&c); err != nil {
			return err
		}
		if err := f(c); err != nil {
			return err
		}
	}
	_, err := d.Token() // the end of the list
	return err
}

// joinSocket adds the bytes in a connection's socket to the forwarder's state of the connection: the bytes that the
// program has sent and the forwarder has not read, and the bytes that the forwarder has written and the socket has not
// sent.
func joinSocket(s forward.SavedConnection, socket *overlay.Connection, unread, unsent []byte) Connection {
	if !s.Ended {
		s.Stream.Out = append(s.Stream.Out, unread...)
		s.Ended = socket.Ended
		s.Stream.Shut = s.Stream.Shut || socket.Ended
	}
	s.Stream.In = slices.Concat(unsent, s.Stream.In)
	s.Shut = s.Shut && !socket.Ending
	return Connection{SavedConnection: s, Socket: socket}
}

// Restore makes the connections of a checkpoint again, in a capsule with a locked network, and gives them to the
// forwarder, which stands still until Continue. A connection that cannot be made again is left out, and its program's
// end is to be reset.
func (f *Forwarder) Restore(ctx context.Context, r io.Reader, log *slog.Logger) error {
	if err := f.Hold(ctx); err != nil {
		return err
	}
	var made []forward.SavedConnection
	var sockets []*os.File
	defer func() { localsock.CloseAll(sockets) }()
	hand := func() error {
		err := f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error { return o.Add(ctx, made, sockets) })
		localsock.CloseAll(sockets)
		made, sockets = nil, nil
		return err
	}
	err := readList(r, func(c Connection) error {
		if c.Socket == nil {
			return errors.New("a connection has no socket")
		}
		s, err := overlay.MakeConnection(f.spec.Init, c.Socket)
		if err != nil {
			log.Error("a connection to outside cannot be made again", "to", c.To, "error", err)
			return nil
		}
		made, sockets = append(made, c.SavedConnection), append(sockets, s)
		f.note.Names = append(f.note.Names, c.ID)
		f.note.Sockets = append(f.note.Sockets, Ends{From: c.From, To: c.To})
		if len(made) == forward.Batch {
			return hand()
		}
		return nil
	})
	if err == nil {
		err = hand()
	}
	if err != nil {
		return fmt.Errorf("connections to outside: %w", err)
	}
	return nil
}

// Has tells whether a connection of the checkpoint was made again.
func (f *Forwarder) Has(e Ends) bool { return slices.Contains(f.note.Sockets, e) }
