// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// Export writes a checkpoint's streams as files NODE/RANK/NAME below dir, which must exist and be empty, and
// manifest.json beside them. Zeros become holes. After an error the files stay in dir. progress counts bytes.
func (s *Store) Export(ctx context.Context, id ID, dir string, progress Progress) error {
	r, err := s.Open(ctx, id)
	if err != nil {
		return err
	}
	defer r.Close()
	root, err := os.OpenRoot(dir)
	if err == nil {
		defer root.Close()
		err = exportFiles(r, root, progress)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: export: %w", id, err)
	}
	return nil
}

func exportFiles(r *Reader, root *os.Root, progress Progress) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if names, err := d.Readdirnames(1); err != io.EOF {
		return errors.Join(err, fmt.Errorf("%s is not empty: %s", root.Name(), names))
	}
	var done, total int64
	for _, info := range r.m.Streams {
		total += info.Size
	}
	for _, info := range r.m.Streams {
		f, err := createFile(root, info.String())
		if err != nil {
			return err
		}
		err = exportStream(r, info.StreamID, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if done += info.Size; progress != nil {
			progress(done, total)
		}
	}
	return exportManifest(r.m, root)
}

func createFile(root *os.Root, name string) (*os.File, error) {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return nil, err
	}
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func exportManifest(m *Manifest, root *os.Root) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := createFile(root, "manifest.json")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// exportStream writes a stream and makes the file durable.
func exportStream(r *Reader, id StreamID, f *os.File) error {
	s, err := r.Stream(id)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.WriteTo(&sparseFile{f: f}); err != nil {
		return err
	}
	if err := f.Truncate(s.info.Size); err != nil { // a hole at the end
		return err
	}
	return f.Sync()
}

// sparseFile writes holes in place of zeros.
type sparseFile struct {
	f  *os.File
	at int64
}

func (s *sparseFile) Write(p []byte) (int, error) {
	if &p[0] == &zeroBlock[0] {
		s.at += int64(len(p))
		return len(p), nil
	}
	n, err := s.f.WriteAt(p, s.at)
	s.at += int64(n)
	return n, err
}
