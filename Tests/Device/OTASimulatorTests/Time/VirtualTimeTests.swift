import OTASimulator
import OTAUpdate
import Testing

@Suite("Virtual time") struct VirtualTimeTests {
    /// Records events in order, each with its time in milliseconds. Used on one thread.
    private final class Diary: @unchecked Sendable {
        var lines: [String] = []
        let time: VirtualTime
        init(_ time: VirtualTime) { self.time = time }
        func note(_ text: String) { lines.append("\(time.now.offset / .milliseconds(1)) \(text)") }
    }

    @Test("tasks wake in the order of their wake times, then in the order of their sleep calls")
    func sleepersWakeInTheOrderOfTheirInstantsAndThenOfTheirArrival() throws {
        let time = VirtualTime()
        let diary = Diary(time)
        try time.run {
            await withTaskGroup(of: Void.self) { group in
                for (name, milliseconds) in [("a", 30), ("b", 10), ("c", 30), ("d", 20), ("e", 10)] {
                    group.addTask {
                        try? await time.sleep(for: .milliseconds(milliseconds))
                        diary.note(name)
                    }
                }
            }
            diary.note("end")
        }
        #expect(diary.lines == ["10.0 b", "10.0 e", "20.0 d", "30.0 a", "30.0 c", "30.0 end"])
    }

    @Test("time advances only when all tasks sleep, without waiting in real time")
    func hoursPassInNoTimeAndTimeStandsStillWhileThereIsWork() throws {
        let time = VirtualTime()
        let wall = ContinuousClock.now
        let end = try time.run {
            for _ in 0..<100 { await Task.yield() }
            #expect(time.now.offset == .zero)
            for _ in 0..<24 { try await time.sleep(for: .seconds(3600)) }
            return time.now.offset
        }
        #expect(end == .seconds(86400))
        #expect(wall.duration(to: .now) < .seconds(3600))
    }

    @Test("a sleep until a past time runs other tasks first and does not decrease the time")
    func aSleepThatIsOverAlreadyLetsOthersGoFirstAndDoesNotTurnTimeBack() throws {
        let time = VirtualTime()
        let diary = Diary(time)
        try time.run {
            try await time.sleep(for: .seconds(1))
            async let other: Void = diary.note("other")
            try await time.sleep(until: VirtualTime().now, tolerance: nil)
            diary.note("sleeper")
            await other
        }
        #expect(diary.lines == ["1000.0 other", "1000.0 sleeper"])
    }

    @Test("a cancelled task wakes at once, and its next sleep throws at once")
    func aCancelledSleeperWakesAtOnce() throws {
        let time = VirtualTime()
        let diary = Diary(time)
        try time.run {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    await #expect(throws: CancellationError.self) { try await time.sleep(for: .seconds(60)) }
                    diary.note("cancelled")
                    // A cancelled task does not sleep.
                    await #expect(throws: CancellationError.self) { try await time.sleep(for: .seconds(60)) }
                    diary.note("again")
                }
                try? await time.sleep(for: .seconds(2))
                group.cancelAll()
            }
        }
        #expect(diary.lines == ["2000.0 cancelled", "2000.0 again"])
    }

    @Test("cancelled sleeps do not accumulate in the queue")
    func cancelledSleepersDoNotPileUp() throws {
        let time = VirtualTime()
        try time.run {
            for _ in 0..<2000 {
                await withTaskGroup(of: Void.self) { group in
                    group.addTask { try? await time.sleep(for: .seconds(3600)) }
                    await Task.yield()
                    group.cancelAll()
                }
            }
        }
        #expect(time.sleeperPlaces < 100)
        #expect(time.now.offset == .zero)
    }

    @Test("1,000 tasks wake at their exact times while 1,000 other sleeps are cancelled")
    func thousandsOfSleepersKeepTheirOrderWhileHalfOfThemAreCancelled() throws {
        let time = VirtualTime()
        let diary = Diary(time)
        try time.run {
            await withTaskGroup(of: Void.self) { group in
                var random = SplitMix64(seed: 7)
                for _ in 0..<1000 {
                    let pause = Duration.milliseconds(Int.random(in: 1...500, using: &random))
                    group.addTask {
                        try? await time.sleep(for: pause)
                        #expect(time.now.offset == pause)
                        diary.lines.append("woke")
                    }
                    group.addTask {
                        await withTaskGroup(of: Void.self) { inner in
                            inner.addTask { try? await time.sleep(for: .seconds(9)) }
                            try? await time.sleep(for: pause - .microseconds(1))
                            inner.cancelAll()
                        }
                    }
                }
            }
        }
        #expect(diary.lines.count == 1000)
    }

    @Test("waiting for an event that cannot occur throws Stalled and cancels the task")
    func waitingForWhatCannotComeIsAStallAndTakesTheTaskDown() {
        let time = VirtualTime()
        let diary = Diary(time)
        #expect(throws: VirtualTime.Stalled.self) {
            try time.run {
                try await time.sleep(for: .seconds(5))
                let (never, _) = AsyncStream.makeStream(of: Void.self)
                let kept = never
                for await _ in kept {}
                diary.note("taken down")
            }
        }
        #expect(diary.lines == ["5000.0 taken down"])
    }

    @Test("run rethrows the error of its body")
    func errorsComeOut() {
        struct Failed: Error {}
        #expect(throws: Failed.self) { try VirtualTime().run { throw Failed() } }
    }

    @Test("a program with concurrent tasks has the same event order in two runs", arguments: 1...20)
    func oneProgramTakesOneCourse(seed: UInt64) throws {
        func course() throws -> [String] {
            let time = VirtualTime()
            let diary = Diary(time)
            try time.run {
                let (stream, post) = AsyncStream.makeStream(of: Int.self)
                await withTaskGroup(of: Void.self) { group in
                    for worker in 0..<8 {
                        group.addTask {
                            var random = SplitMix64(seed: seed &+ UInt64(worker))
                            for _ in 0..<20 {
                                try? await time.sleep(for: .milliseconds(Int.random(in: 0...5, using: &random)))
                                post.yield(worker)
                            }
                        }
                    }
                    var count = 0
                    for await worker in stream {
                        diary.note("\(worker)")
                        count += 1
                        if count == 160 { break }
                    }
                }
            }
            return diary.lines
        }
        #expect(try course() == course())
    }
}
