// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"net/http"
	"strings"
	"sync"
	"time"
)

// document is a JSON text that is made once and sent to many browsers.
type document struct {
	tag           string
	plain, zipped []byte
}

// worthZipping is the size below which compression would cost more than it saves.
const worthZipping = 1 << 10

func newDocument(content any) (*document, error) {
	plain, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	sum := fnv.New128a()
	sum.Write(plain)
	d := &document{tag: `"` + hex.EncodeToString(sum.Sum(nil)) + `"`, plain: plain}
	if len(plain) < worthZipping {
		return d, nil
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(plain); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	d.zipped = b.Bytes()
	return d, nil
}

// sendTo answers a request; a browser that has the document already gets 304 without it.
func (d *document) sendTo(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("ETag", d.tag)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == d.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	body := d.plain
	if d.zipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = d.zipped
	}
	_, _ = w.Write(body) // the browser has gone
}

// cachedDocument is a document that is made again when it is older than life, or of another key. However
// many browsers ask, a single document is made at a time.
type cachedDocument struct {
	life time.Duration // 0: until the key changes

	mu   sync.Mutex
	key  any
	made time.Time
	last *document
}

func (k *cachedDocument) getOrBuild(key any, now time.Time, build func() (any, error)) (*document, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil && k.key == key && (k.life == 0 || now.Sub(k.made) < k.life) {
		return k.last, nil
	}
	content, err := build()
	if err != nil {
		return nil, err
	}
	d, err := newDocument(content)
	if err != nil {
		return nil, err
	}
	k.key, k.made, k.last = key, now, d
	return d, nil
}
