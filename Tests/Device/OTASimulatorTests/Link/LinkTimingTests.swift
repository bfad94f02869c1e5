import OTAEngine
import OTASimulator
import OTAUpdate
import Testing

/// Compares the simulated radio with times calculated by hand. A connection takes 200 ms. By default, a connection event follows every
/// 15 ms and carries 6 packets in each direction.
@Suite("Timing of the simulated radio") struct LinkTimingTests {
    /// Runs a host and returns the time of each of its steps in milliseconds.
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

    @Test("a request and its answer use two consecutive connection events")
    func aRequestGoesDownInOneEventAndItsAnswerUpInTheNext() throws {
        let marks = try milliseconds { host, mark in
            _ = try await host.read(VirtualGATT.version)
            mark("read")
            // The write and the request are both answered in the event after the one that carried them.
            _ = try await host.subscribe()
            mark("two subscriptions")
            _ = try await host.ask("07 01 05")
            mark("request")
        }
        #expect(marks == ["200.0 up", "230.0 read", "290.0 two subscriptions", "320.0 request"])
    }

    @Test("connection events keep their interval while no data is queued")
    func eventsKeepTheirPaceWhileNothingIsQueued() throws {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time)
        let end = try time.run {
            try await transport.host { host in
                // After 1007 ms, the next connection event is the 68th, at 1220 ms.
                try await time.sleep(for: .milliseconds(1007))
                _ = try await host.read(VirtualGATT.version)
                return time.now.offset
            }
        }
        #expect(end == .milliseconds(1235))
    }

    @Test("a long read needs one round trip for each part of MTU - 1 bytes")
    func aLongReadTakesARoundTripForEachPart() throws {
        var radio = RadioModel()
        radio.mtu = 23
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time, radio: radio)
        let (count, end) = try time.run {
            try await transport.host { host in (try await host.read(VirtualGATT.info).count, time.now.offset) }
        }
        // Each part has 22 bytes, and the last one is shorter. Each part needs a request in one event and an answer in the next.
        #expect(count > 44)
        #expect(end == .milliseconds(200 + 30 * (count / 22 + 1)))
    }

    /// Sends chunks and then a request, and returns the times of the start and of the answer. The radio carries the chunks, and the device
    /// drops them because no object is open.
    private func fenced(_ count: Int, of length: Int, radio: RadioModel) throws -> [String] {
        try milliseconds(radio: radio) { host, mark in
            try await host.subscribe()
            mark("start")
            host.send(Array(repeating: Array(repeating: 0, count: length), count: count))
            _ = try await host.ask("07 01 00")
            mark("fence")
        }
    }

    @Test("one connection event carries six packets in each direction")
    func sixPacketsPassInAnEvent() throws {
        // 60 values fill ten events. The eleventh carries the request, and the twelfth carries the answer.
        #expect(
            try fenced(60, of: 244, radio: RadioModel()) == ["200.0 up", "260.0 start", "\(260.0 + 12 * 15) fence"])
        // With 59 values, the tenth event has space for the request.
        #expect(
            try fenced(59, of: 244, radio: RadioModel()) == ["200.0 up", "260.0 start", "\(260.0 + 11 * 15) fence"])
    }

    @Test("a value of several packets may continue in the next connection event")
    func aValueOfTwoPacketsTakesTwoAndMayBeginInOneEventAndEndInTheNext() throws {
        var radio = RadioModel()
        radio.mtu = 517
        // 5 values of 495 bytes are 10 packets, which fill two events of 5. The third event carries the request.
        radio.perEvent = 5
        #expect(try fenced(5, of: 495, radio: radio) == ["200.0 up", "260.0 start", "\(260.0 + 4 * 15) fence"])
        // One more byte needs a third packet. 6 values are 18 packets in four events, and the fourth event has space for 2 more.
        #expect(try fenced(6, of: 496, radio: radio) == ["200.0 up", "260.0 start", "\(260.0 + 5 * 15) fence"])
    }

    @Test("with one packet per event, each packet needs its own interval of 7.5 ms")
    func aShortIntervalAndOnePacketAnEvent() throws {
        var radio = RadioModel()
        radio.interval = .microseconds(7500)
        radio.perEvent = 1
        // Five events carry four values and the request. Two more carry the answers to the request and to the write.
        #expect(try fenced(4, of: 20, radio: radio) == ["200.0 up", "230.0 start", "\(230.0 + 7 * 7.5) fence"])
    }

    @Test("a lost connection event delays packets but loses none")
    func aLostEventDelaysAndLosesNothing() throws {
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
        // Without loss, the same installation takes less time.
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

    @Test("the host detects a broken link 420 ms after the break, at the supervision timeout")
    func bothEndsNoticeABreakWhenTheSupervisionTimeoutIsOver() throws {
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

    @Test("a connection attempt to a device that is gone times out after 10 s")
    func anAttemptAtADeviceThatIsGoneIsGivenUpAfterTenSeconds() throws {
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

    @Test("a device out of reach for 4 s accepts a connection afterwards")
    func aDeviceOutOfReachIsThereAgainLater() throws {
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
        // The link breaks at 215 ms. The device is in reach again 4 s later, and the connection takes 200 ms.
        #expect(end == .milliseconds(4415))
        #expect(transport.statistics.links == 2)
    }

    @Test("an installation completes over a link that the real clock drives")
    func theRealClockDrivesTheSameLink() async throws {
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
