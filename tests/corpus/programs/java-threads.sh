#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Java: platform and virtual threads, locks, a busy garbage collector, the JIT at work
# Needs: default-jre-headless
#SBATCH --job-name=java-threads --ntasks=1 --output=log
set -eu
echo "compiling"
cat >Threads.java <<'JAVA'
import java.io.PrintWriter;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Threads {
	static byte[] chain(int seed, int n) throws Exception {
		MessageDigest md = MessageDigest.getInstance("SHA-256");
		byte[] h = Integer.toString(seed).getBytes();
		for (int i = 0; i < n; i++) h = md.digest(h);
		return h;
	}

	public static void main(String[] args) throws Exception {
		ConcurrentSkipListMap<Integer, String> results = new ConcurrentSkipListMap<>();
		ArrayBlockingQueue<Integer> work = new ArrayBlockingQueue<>(4);
		AtomicLong sum = new AtomicLong();
		List<Thread> threads = new ArrayList<>();
		for (int n = 0; n < 3; n++) {
			Thread t = new Thread(() -> {
				try {
					for (int item; (item = work.take()) >= 0; ) {
						byte[] h = chain(item, 2000);
						Map<Integer, byte[]> garbage = new HashMap<>();
						for (int i = 0; i < 500; i++) garbage.put(i, new byte[256 + (h[i % 32] & 63)]);
						for (byte[] b : garbage.values()) sum.addAndGet(b.length);
						results.put(item, HexFormat.of().formatHex(h));
					}
				} catch (Exception e) { e.printStackTrace(); }
			});
			t.start();
			threads.add(t);
		}
		ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
		AtomicInteger ticks = new AtomicInteger();
		CountDownLatch rung = new CountDownLatch(40);
		clock.scheduleAtFixedRate(() -> { ticks.incrementAndGet(); rung.countDown(); }, 0, 100, TimeUnit.MILLISECONDS);
		System.out.println("running");
		for (int item = 0; item < 150; item++) {
			work.put(item);
			if (item % 25 == 24) System.out.println("handed out " + (item + 1));
			Thread.sleep(40);
		}
		for (int n = 0; n < 3; n++) work.put(-1);
		for (Thread t : threads) t.join();
		rung.await();
		clock.shutdownNow();
		try (var virtual = Executors.newVirtualThreadPerTaskExecutor()) {
			List<Future<Integer>> sleepers = new ArrayList<>();
			for (int i = 0; i < 200; i++) { int n = i; sleepers.add(virtual.submit(() -> { Thread.sleep(n * 5); return n * n; })); }
			long total = 0;
			for (Future<Integer> f : sleepers) total += f.get();
			System.out.println("virtual threads: " + total);
		}
		System.out.println("bytes of garbage: " + sum.get());
		try (PrintWriter out = new PrintWriter("results")) { results.forEach((k, v) -> out.println(k + " " + v)); }
	}
}
JAVA
java -Xmx96m -XX:+UseSerialGC Threads.java
sha256sum results
