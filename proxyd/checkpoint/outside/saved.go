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

	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
)

// Connection is what a checkpoint keeps of a connection.
type Connection struct {
	forward.Saved
	Socket *overlay.Connection `json:"socket"`
}

// Save writes what a checkpoint keeps of the capsule's connections, and returns how many there are. The network of
// the capsule is locked, and its programs stand still. The forwarder stands still after that, until Go.
func (f *Forwarder) Save(ctx context.Context, w io.Writer) (n int, err error) {
	var all []forward.Saved
	var sockets []*os.File
	err = f.giveOrder(ctx, func(o forward.Orders) (err error) {
		all, sockets, err = o.Hold(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer closeAll(sockets)
	var kept []Connection
	for i, s := range all {
		socket, unread, unsent, err := overlay.TakeConnection(sockets[i])
		if errors.Is(err, overlay.ErrNotConnected) {
			continue // over at the program's end
		}
		if err != nil {
			return 0, err
		}
		kept = append(kept, joinSocket(s, socket, unread, unsent))
	}
	return len(kept), json.NewEncoder(w).Encode(kept)
}

// joinSocket adds to what the forwarder has of a connection what its socket has: bytes that the program has sent and the
// forwarder has not read, and bytes that the forwarder has written and the socket has not sent.
func joinSocket(s forward.Saved, socket *overlay.Connection, unread, unsent []byte) Connection {
	if !s.Ended {
		s.Stream.Out = append(s.Stream.Out, unread...)
		s.Ended = socket.Ended
		s.Stream.Shut = s.Stream.Shut || socket.Ended
	}
	s.Stream.In = slices.Concat(unsent, s.Stream.In)
	s.Shut = s.Shut && !socket.Ending
	return Connection{Saved: s, Socket: socket}
}

// Restore makes the connections of a checkpoint again, in a capsule with a locked network, and gives them to the
// forwarder, which stands still until Go. A connection that cannot be made again is left out, and its program's end
// is to be reset.
func (f *Forwarder) Restore(ctx context.Context, r io.Reader, log *slog.Logger) error {
	var all []Connection
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return fmt.Errorf("connections to outside: %w", err)
	}
	if err := f.Hold(ctx); err != nil {
		return err
	}
	var made []forward.Saved
	var sockets []*os.File
	defer func() { closeAll(sockets) }()
	for _, c := range all {
		if c.Socket == nil {
			return errors.New("connections to outside: one has no socket")
		}
		s, err := overlay.MakeConnection(f.spec.Init, c.Socket)
		if err != nil {
			log.Error("a connection to outside cannot be made again", "to", c.To, "error", err)
			continue
		}
		made, sockets = append(made, c.Saved), append(sockets, s)
		f.note.Names = append(f.note.Names, c.ID)
		f.note.Sockets = append(f.note.Sockets, Ends{From: c.From, To: c.To})
	}
	return f.giveOrder(ctx, func(o forward.Orders) error { return o.Add(ctx, made, sockets) })
}

// Has tells whether a connection of the checkpoint was made again.
func (f *Forwarder) Has(e Ends) bool { return slices.Contains(f.note.Sockets, e) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
