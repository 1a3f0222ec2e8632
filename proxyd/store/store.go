// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Options of a store. The zero value is usable.
type Options struct {
	// Workers is the number of cores that hash and compress, over all Writers; 0: all.
	Workers int
	// Lanes is the number of chunks of a Writer that are processed at once, some of which wait for
	// the file system; 0: 4. A Writer holds 12 MiB + Lanes × 3 MiB.
	Lanes int
	// Beat is the interval of a claim's heartbeat; 0: 10 s.
	Beat time.Duration
	// Lapse is the time without a change, seen from here, after which a claim's owner counts as dead; 0: 2 min. Beat must
	// be much shorter than Lapse, on all nodes.
	Lapse time.Duration
	// Owner names the owner of this process's claims. OwnerGone tells whether an owner is certainly gone, which ends its
	// claims at once; nil: never certain. ThisProcess and ProcessGone are values for the two.
	Owner     string
	OwnerGone func(owner string) bool
	// Now dates checkpoints and measures Lapse; nil: time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Lanes <= 0 {
		o.Lanes = 4
	}
	if o.Beat <= 0 {
		o.Beat = 10 * time.Second
	}
	if o.Lapse <= 0 {
		o.Lapse = 2 * time.Minute
	}
	if o.OwnerGone == nil {
		o.OwnerGone = func(string) bool { return false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Progress gets the amount of work done, and the total or 0. Progress is called from one goroutine
// at a time, often, and must not block.
type Progress func(done, total int64)

// Store is a store on a Backend. All methods may be called concurrently, by any number of
// processes on any number of nodes.
type Store struct {
	be    Backend
	key   Key
	opt   Options
	cores chan struct{} // one value for each free core
	dec   *zstd.Decoder
	watch *claimWatch

	closed sync.Once
}

// Open opens the store in be, or creates a store in an empty be. For a store of another version the error is ErrFormat.
// The backend must stay usable until Close, which does not close it.
func Open(ctx context.Context, be Backend, key Key, opt Options) (*Store, error) {
	if !key.set {
		return nil, errors.New("open store: no key")
	}
	if err := prepareFolders(ctx, be); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	opt = opt.withDefaults()
	s := &Store{be: be, key: key, opt: opt, watch: newClaimWatch(opt.Lapse)}
	s.cores = make(chan struct{}, opt.Workers)
	for range opt.Workers {
		s.cores <- struct{}{}
	}
	var err error
	if s.dec, err = newDecoder(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

// Close releases memory. Writers and Readers must have ended. Close may be called twice.
func (s *Store) Close() {
	s.closed.Do(s.dec.Close)
}

// prepareFolders checks the format, and makes the format file and the folders if the file is missing. Two nodes may do
// so at once.
func prepareFolders(ctx context.Context, be Backend) error {
	text, err := be.Get(ctx, formatFile, len(formatText), nil)
	switch {
	case err == nil && string(text) == formatText:
		return nil
	case err == nil, errors.Is(err, ErrForeign):
		return errors.Join(ErrFormat, err)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dirs := []string{tmpDir, chunksDir, manifestsDir, deletedDir, claimsDir, generationsDir, sweepDir, trashDir}
	for i := range chunkFolders {
		dirs = append(dirs, chunkFolder(byte(i)))
	}
	for _, dir := range dirs {
		if err := ensureFolder(ctx, be, dir); err != nil {
			return err
		}
	}
	if err := be.Put(ctx, File{formatFile, []byte(formatText)}); err != nil {
		return err
	}
	return be.Sync(ctx, ".")
}

// ensureFolder makes a folder if it is missing.
func ensureFolder(ctx context.Context, be Backend, dir string) error {
	if err := be.Mkdir(ctx, dir); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ensureFolders makes a folder and its parents.
func ensureFolders(ctx context.Context, be Backend, dir string) error {
	err := ensureFolder(ctx, be, dir)
	if !errors.Is(err, fs.ErrNotExist) || dir == "." {
		return err
	}
	if err := ensureFolders(ctx, be, path.Dir(dir)); err != nil {
		return err
	}
	return ensureFolder(ctx, be, dir)
}

// syncIfThere makes names durable in a folder that a collector may have removed.
func (s *Store) syncIfThere(ctx context.Context, dir string) error {
	if err := s.be.Sync(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// uniqueName returns a name that no other call returns.
func uniqueName() string { return rand.Text() }

// loadManifest reads the manifest of id at name, which may be another name than its place in manifests/.
func (s *Store) loadManifest(ctx context.Context, name string, id ID) (*Manifest, error) {
	file, err := s.be.Get(ctx, name, maxManifest, nil)
	if errors.Is(err, ErrForeign) {
		return nil, &RefusedError{"manifest " + id.String(), err}
	}
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", id, err)
	}
	return openManifest(file, id, s.key)
}

// loadChunk reads the chunk h of n plain bytes. The result may use dst's and file's
// storage.
func (s *Store) loadChunk(ctx context.Context, h Hash, n int, dst []byte, file *[]byte) ([]byte, error) {
	raw, err := s.findChunk(ctx, h, *file)
	if err != nil {
		return nil, fmt.Errorf("chunk %s: %w", h, err)
	}
	*file = raw
	return decodeChunk(dst, raw, h, n, s.dec)
}

// findChunk reads a chunk's file, wherever a collector may have moved it. A chunk moves first to
// sweep/, then to trash/, then perhaps back, so one search may miss a chunk in use, but not many
// searches.
func (s *Store) findChunk(ctx context.Context, h Hash, buf []byte) ([]byte, error) {
	const rounds = 5
	for range rounds {
		raw, err := s.be.Get(ctx, chunkName(h), maxChunkFile, buf)
		if errors.Is(err, ErrForeign) {
			return nil, &DamagedError{"chunk " + h.String(), err.Error()}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return raw, err
		}
		for _, top := range []string{sweepDir, trashDir} {
			raw, err := s.findBelow(ctx, top, h, buf)
			if !errors.Is(err, fs.ErrNotExist) {
				return raw, err
			}
		}
		if err := s.be.Refresh(ctx, chunkFolder(h[0])); err != nil {
			return nil, err
		}
	}
	return nil, fs.ErrNotExist
}

// findBelow looks for a chunk in each folder of top.
func (s *Store) findBelow(ctx context.Context, top string, h Hash, buf []byte) ([]byte, error) {
	dirs, err := s.listNames(ctx, top)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		raw, err := s.be.Get(ctx, top+"/"+dir+"/"+h.String(), maxChunkFile, buf)
		if !errors.Is(err, fs.ErrNotExist) {
			return raw, err
		}
	}
	return nil, fs.ErrNotExist
}

// listNames lists a folder that is not large. A missing folder is empty.
func (s *Store) listNames(ctx context.Context, dir string) ([]string, error) {
	var names []string
	err := s.be.List(ctx, dir, func(name string) error {
		// A dot: a removed file that NFS keeps because a process has it open.
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}
