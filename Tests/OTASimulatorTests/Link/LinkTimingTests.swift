import OTASimulator
import OTATransport
import OTAUpdate
import Testing

/// The modelled radio against times reckoned by hand. A link comes 200 ms after the attempt; with the defaults a connection
/// event follows every 15 ms, of 6 packets in each direction.
@Suite struct LinkTimingTests {
    /// Runs a host, and returns the milliseconds at which each of its steps was done.
    private func milliseconds(
        radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(),
        _ body: @escaping @Sendable (inout TinyHost, (String) -> Void) async throws -> Void
    ) throws -> [String] {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time, radio: radio, faults: faults)
        return try time.run {
            var marks: [String] = []
            let mark = { (name: String) in marks.append("\(time.now.offset / .milliseconds(1)) \(name)") }
            do {
                try await transport.host { host in
                    mark("up")
                    try await body(&host, mark)
                }
            } catch is TinyHost.Lost {
                mark("lost")
            }
            return marks
        }
    }

    @Test func aRequestGoesDownInOneEventAndItsAnswerUpInTheNext() throws {
        let marks = try milliseconds { host, mark in
            _ = try await host.read(VirtualGATT.version)
            mark("read")
            // The write is answered, and the request too, in the event after the one that took it down.
            _ = try await host.subscribe()
            mark("two subscriptions")
            _ = try await host.ask("07 01 05")
            mark("request")
        }
        #expect(marks == ["200.0 up", "230.0 read", "290.0 two subscriptions", "320.0 request"])
    }

    @Test func eventsKeepTheirPaceWhileNothingIsQueued() throws {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time)
        let end = try time.run {
            try await transport.host { host in
                // 1007 ms later the next connection event is the 68th, at 1220 ms.
                try await time.sleep(for: .milliseconds(1007))
                _ = try await host.read(VirtualGATT.version)
                return time.now.offset
            }
        }
        #expect(end == .milliseconds(1235))
    }

    @Test func aLongReadTakesARoundTripForEachPart() throws {
        var radio = RadioModel()
        radio.mtu = 23
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time, radio: radio)
        let (count, end) = try time.run {
            try await transport.host { host in (try await host.read(VirtualGATT.info).count, time.now.offset) }
        }
        // Parts of 22 bytes, the last one shorter; each a request in one event and an answer in the next.
        #expect(count > 44)
        #expect(end == .milliseconds(200 + 30 * (count / 22 + 1)))
    }

    /// Chunks that no object is open for are dropped by the device; the radio carries them all the same. The request behind
    /// them is the fence.
    private func fenced(_ count: Int, of length: Int, radio: RadioModel) throws -> [String] {
        try milliseconds(radio: radio) { host, mark in
            try await host.subscribe()
            mark("start")
            host.send(Array(repeating: Array(repeating: 0, count: length), count: count))
            _ = try await host.ask("07 01 00")
            mark("fence")
        }
    }

    @Test func sixPacketsPassInAnEvent() throws {
        // 60 values fill ten events; the request goes in the eleventh, and its answer comes in the twelfth.
        #expect(
            try fenced(60, of: 244, radio: RadioModel()) == ["200.0 up", "260.0 start", "\(260.0 + 12 * 15) fence"])
        // With 59 the request finds room in the tenth.
        #expect(
            try fenced(59, of: 244, radio: RadioModel()) == ["200.0 up", "260.0 start", "\(260.0 + 11 * 15) fence"])
    }

    @Test func aValueOfTwoPacketsTakesTwoAndMayBeginInOneEventAndEndInTheNext() throws {
        var radio = RadioModel()
        radio.mtu = 517
        // 5 × 495 bytes are 10 packets, two events of 5; the request goes in the third.
        radio.perEvent = 5
        #expect(try fenced(5, of: 495, radio: radio) == ["200.0 up", "260.0 start", "\(260.0 + 4 * 15) fence"])
        // One byte more needs a third packet: 6 values are 18 packets, four events, the last one with 2 to spare.
        #expect(try fenced(6, of: 496, radio: radio) == ["200.0 up", "260.0 start", "\(260.0 + 5 * 15) fence"])
    }

    @Test func aShortIntervalAndOnePacketAnEvent() throws {
        var radio = RadioModel()
        radio.interval = .microseconds(7500)
        radio.perEvent = 1
        // Four values and a request go down in five events; the request's answer and the write's go up in two more.
        #expect(try fenced(4, of: 20, radio: radio) == ["200.0 up", "230.0 start", "\(230.0 + 7 * 7.5) fence"])
    }

    @Test func aLostEventDelaysAndLosesNothing() throws {
        var radio = RadioModel()
        radio.loss = 0.5
        let time = VirtualTime()
        let device = try Example.device()
        let transport = SimulatedTransport(device: device, clock: time, radio: radio)
        try time.run {
            try await transport.host {
                try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
                #expect($0.progress.isEmpty)
            }
        }
        #expect(transport.statistics.devicePackets > 10)
        // Without loss the same takes less.
        let lossless = VirtualTime()
        let other = SimulatedTransport(device: try Example.device(), clock: lossless)
        try lossless.run {
            try await other.host {
                try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
            }
        }
        #expect(other.statistics.devicePackets == transport.statistics.devicePackets)
        #expect(lossless.now < time.now)
    }

    @Test func bothEndsNoticeABreakWhenTheSupervisionTimeoutIsOver() throws {
        var faults = FaultPlan()
        faults.cutAfterDevicePackets = [1]
        let afterPacket = try milliseconds(faults: faults) { host, _ in _ = try await host.read(VirtualGATT.version) }
        #expect(afterPacket == ["200.0 up", "\(215.0 + 420) lost"])
        faults = FaultPlan()
        faults.cutAfterHostEvents = [1]
        let afterEvent = try milliseconds(faults: faults) { host, mark in
            _ = try await host.read(VirtualGATT.version)
            mark("read")
            _ = try await host.read(VirtualGATT.version)
        }
        #expect(afterEvent == ["200.0 up", "230.0 read", "\(230.0 + 420) lost"])
    }

    @Test func anAttemptAtADeviceThatIsGoneIsGivenUpAfterTenSeconds() throws {
        var faults = FaultPlan()
        faults.goneAt = 0
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time, faults: faults)
        #expect(throws: LinkError(.timedOut, "")) {
            try time.run {
                await #expect(throws: TinyHost.Lost.self) {
                    try await transport.host {
                        try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
                    }
                }
                let before = time.now.offset
                do {
                    try await transport.host { _ in }
                } catch {
                    #expect(time.now.offset - before == .seconds(10))
                    throw error
                }
            }
        }
    }

    @Test func aDeviceOutOfReachIsThereAgainLater() throws {
        var faults = FaultPlan()
        faults.cutAfterDevicePackets = [1]
        faults.outOfReach = .seconds(4)
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time, faults: faults)
        let end = try time.run {
            await #expect(throws: TinyHost.Lost.self) {
                try await transport.host { try await $0.read(VirtualGATT.version) }
            }
            return try await transport.host { _ in time.now.offset }
        }
        // Broken at 215 ms, in reach again 4 s after, and 200 ms to connect.
        #expect(end == .milliseconds(4415))
        #expect(transport.statistics.links == 2)
    }

    @Test func theRealClockDrivesTheSameLink() async throws {
        var radio = RadioModel()
        radio.interval = .microseconds(7500)
        radio.connectTime = .milliseconds(1)
        let device = try Example.device()
        let transport = SimulatedTransport(device: device, clock: ContinuousClock(), radio: radio)
        try await transport.host {
            try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
        }
        #expect(device.bootState?.trial == .pending)
    }
}
