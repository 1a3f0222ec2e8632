#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: LuaJIT: traces of machine code, structs and calls into libc by FFI, coroutines, string buffers
# Needs: luajit
#SBATCH --job-name=luajit --ntasks=1 --output=log
set -eu
cat >swarm.lua <<'LUA'
local ffi, bit = require "ffi", require "bit"
ffi.cdef [[
typedef struct { double x, y, vx, vy; } body;
int usleep(unsigned);
void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
size_t strlen(const char *);
]]
local n = 120
local bodies = ffi.new("body[?]", n)
for i = 0, n - 1 do
	bodies[i].x, bodies[i].y = math.cos(i * 0.7) * (1 + i / n), math.sin(i * 0.7) * (1 + i / n)
end
local function step(dt)
	for i = 0, n - 1 do
		local a = bodies[i]
		for j = 0, n - 1 do
			if i ~= j then
				local dx, dy = bodies[j].x - a.x, bodies[j].y - a.y
				local d = dx * dx + dy * dy + 0.1
				a.vx, a.vy = a.vx + dt * dx / d, a.vy + dt * dy / d
			end
		end
	end
	for i = 0, n - 1 do bodies[i].x, bodies[i].y = bodies[i].x + dt * bodies[i].vx, bodies[i].y + dt * bodies[i].vy end
end
local calls = 0
local compare = ffi.cast("int (*)(const void *, const void *)", function(a, b) -- C calls Lua
	calls = calls + 1
	local x, y = ffi.cast("const int *", a)[0], ffi.cast("const int *", b)[0]
	return x < y and -1 or x > y and 1 or 0
end)
local words = coroutine.wrap(function()
	local x = 7
	while true do
		local w = {}
		for i = 1, 300 do x = bit.bxor(x * 48271 % 2147483647, bit.rshift(x, 3)); w[i] = bit.tohex(x) end
		coroutine.yield(table.concat(w))
	end
end)
local out = assert(io.open("orbits", "w"))
print "turning"; io.flush()
for turn = 1, 100 do
	for _ = 1, 10 do step(0.001) end
	local word = words()
	local ints = ffi.new("int[64]")
	for i = 0, 63 do ints[i] = tonumber(word:sub(i * 8 + 1, i * 8 + 7), 16) end
	ffi.C.qsort(ints, 64, 4, compare)
	out:write(string.format("%d %.12f %.12f %d %d %d\n", turn, bodies[turn].x, bodies[turn].y, ints[0], ints[63], tonumber(ffi.C.strlen(word))))
	out:flush()
	if turn % 20 == 0 then print("turn " .. turn .. ": " .. calls .. " comparisons"); io.flush() end
	ffi.C.usleep(70000)
end
out:close()
LUA
luajit swarm.lua
sha256sum orbits
