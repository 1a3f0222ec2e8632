// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// exportCommand is singctl export.
type exportCommand struct{ *app }

func (a exportCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "export CHECKPOINT DIR", Short: "Write the files of a checkpoint into a new folder",
		Long: `export writes the images of a checkpoint, as CRIU made them, into a folder that must not exist yet. It
appears when all is there. The files hold the memory of the job's programs: they are for you only.`,
		Args: argumentCount(2, 2, "a checkpoint and a folder"), ValidArgsFunction: a.completeExport,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, dir := args[0], filepath.Clean(args[1])
			if _, err := rpc.CheckpointJob(name); err != nil {
				return err
			}
			if _, err := os.Lstat(dir); err == nil {
				return rpc.Errorf(rpc.ErrInvalid, "%s is there already; name a new folder", dir)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return a.callAnyDaemon(cmd.Context(), func(c *rpc.Client) error {
				files, size, err := a.writeExport(cmd.Context(), c, name, dir)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(map[string]any{"folder": dir, "files": files, "bytes": size})
					return nil
				}
				fmt.Fprintf(a.stdout, "%s: %s, %s\n", dir, formatPlural(files, "file"), bytesText(size))
				return nil
			})
		},
	}
}

// writeExport fills a folder beside dir and renames the folder when all files are there: until then no file in it is
// trusted, because the stream's seal comes last.
func (a exportCommand) writeExport(ctx context.Context, c *rpc.Client, name, dir string) (files, size int64, err error) {
	partial, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-")
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	root, err := os.OpenRoot(partial)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	p := a.newProgress()
	defer p.endLine()
	w := &exportWriter{root: root}
	var total int64
	err = c.Export(ctx, name, func(piece *rpc.ExportPiece) error {
		if piece.GetTotal() > 0 {
			total = piece.GetTotal()
		}
		err := w.writePiece(piece)
		p.showProgress(&rpc.Progress{Phase: "export", Done: w.size, Total: total, Unit: "bytes"})
		return err
	})
	err = errors.Join(err, w.closeFile())
	if err != nil {
		return 0, 0, err
	}
	return w.files, w.size, os.Rename(partial, dir)
}

// exportWriter writes pieces below a folder, and nowhere else, for all names.
type exportWriter struct {
	root  *os.Root
	file  *os.File
	files int64
	size  int64 // up to the end of the last piece
	base  int64 // of size, the files before the file at hand
	limit int64 // size of this file
}

func (w *exportWriter) writePiece(piece *rpc.ExportPiece) error {
	if piece.GetFile() != "" {
		if err := w.beginFile(piece.GetFile(), piece.GetSize()); err != nil {
			return err
		}
	}
	if len(piece.GetData()) == 0 {
		return nil
	}
	end := piece.GetOffset() + int64(len(piece.GetData()))
	if w.file == nil || piece.GetOffset() < 0 || end > w.limit {
		return rpc.Errorf(rpc.ErrDamaged, "export: a piece is outside of its file")
	}
	_, err := w.file.WriteAt(piece.GetData(), piece.GetOffset())
	w.size = w.base + end
	return err
}

func (w *exportWriter) beginFile(name string, size int64) error {
	if err := w.closeFile(); err != nil {
		return err
	}
	if !filepath.IsLocal(name) || path.Clean(name) != name || size < 0 {
		return rpc.Errorf(rpc.ErrDamaged, "export: file %.120q of %d bytes", name, size)
	}
	if err := w.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w.file, w.limit = f, size
	w.files++
	return f.Truncate(size)
}

// closeFile ends the file at hand, if any.
func (w *exportWriter) closeFile() error {
	if w.file == nil {
		return nil
	}
	w.base += w.limit
	w.size = w.base
	f := w.file
	w.file = nil
	return f.Close()
}
