// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/texture"
)

// TestWriteTexture: a descriptor is written into memory that is allocated, and a descriptor of an impossible texture is
// refused.
func TestWriteTexture(t *testing.T) {
	b, err := New(Config{Memory: []uint64{64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := x.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	at, err := c.Alloc(backend.TextureDescriptorSize)
	if err != nil {
		t.Fatal(err)
	}
	s := x.(*space)
	good := backend.Texture{Base: 4096, Pitch: 64, Slice: 640, Width: 8, Height: 4, Format: 0x20, Channels: 2, Filter: true}
	if err := s.WriteTexture(at, &good); err != nil {
		t.Fatal(err)
	}
	bytes, err := s.table.viewBytes(at, texture.Size)
	if err != nil {
		t.Fatal(err)
	}
	want := texture.Descriptor{Base: 4096, Pitch: 64, Slice: 640, Width: 8, Height: 4, Format: texture.Float32, Channels: 2, Filter: true}
	if got, err := texture.Decode(bytes[0]); err != nil || got != want {
		t.Errorf("Decode of the written descriptor = %+v, %v", got, err)
	}
	if err := s.WriteTexture(at+1<<20, &good); backend.ResultOf(err) != backend.InvalidValue {
		t.Errorf("WriteTexture to an address without memory: %v, want InvalidValue", err)
	}
	for name, change := range map[string]func(*backend.Texture){
		"format":    func(t *backend.Texture) { t.Format = 0xb0 },
		"channels":  func(t *backend.Texture) { t.Channels = 3 },
		"filter":    func(t *backend.Texture) { t.Format = 3 },
		"base":      func(t *backend.Texture) { t.Base += 4 },
		"pitch":     func(t *backend.Texture) { t.Pitch += 4 },
		"width":     func(t *backend.Texture) { t.Width = 0 },
		"too wide":  func(t *backend.Texture) { t.Width = 1 << 20 },
		"too deep":  func(t *backend.Texture) { t.Depth = 1 << 15 },
		"layers":    func(t *backend.Texture) { t.Layers = 1 << 15 },
		"addresses": func(t *backend.Texture) { t.Address[1] = 4 },
		"of what":   func(t *backend.Texture) { t.Depth, t.Layers = 2, 2 },
	} {
		bad := good
		change(&bad)
		if err := s.WriteTexture(0, &bad); backend.ResultOf(err) != backend.InvalidValue {
			t.Errorf("WriteTexture, %s: %v, want InvalidValue", name, err)
		}
	}
	if err := s.WriteTexture(0, &good); err != nil {
		t.Error(err)
	}
}
