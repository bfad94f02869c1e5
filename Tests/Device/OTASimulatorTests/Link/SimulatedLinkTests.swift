import OTAEngine
import OTASimulator
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Simulated link") struct SimulatedLinkTests {
    /// Submits commands to a link and returns all its events during its first second.
    private func events(
        _ device: VirtualDevice, radio: RadioModel = RadioModel(), _ commands: [LinkCommand]
    ) throws -> (events: [LinkEvent], end: LinkError?) {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: device, clock: time, radio: radio)
        return try time.run {
            try await transport.withLink { link, events in
                commands.forEach(link.submit)
                try? await time.sleep(for: .seconds(1))
                link.close()
                return await events.collect()
            }
        }
    }

    @Test("a link reports the device's characteristics and the maximum value length of its MTU")
    func offersWhatTheDeviceHas() throws {
        let time = VirtualTime()
        var radio = RadioModel()
        radio.mtu = 185
        let mains = SimulatedTransport(device: try Example.device(), clock: time, radio: radio)
        let cells = SimulatedTransport(device: try Example.device { $0.battery = 81 }, clock: time)
        try time.run {
            let properties = try await mains.withLink { link, _ in link.properties }
            #expect(properties.maximumValueLength == 182)
            #expect(
                properties.channels == [
                    VirtualGATT.info, VirtualGATT.control, VirtualGATT.data, VirtualGATT.progress, VirtualGATT.version,
                ])
            #expect(try await cells.withLink { link, _ in link.properties.channels }.contains(VirtualGATT.battery))
            #expect(try await cells.host { try await $0.read(VirtualGATT.battery) } == [81])
        }
    }

    @Test("a link refuses unknown characteristics and values longer than its maximum")
    func whatCannotBeIsRefused() throws {
        let refused = { (channel: Channel) in LinkEvent.refused(LinkError(.refused, ""), channel) }
        let control = VirtualGATT.control
        let (events, end) = try events(
            try Example.device(),
            [
                .read(VirtualGATT.battery), .subscribe(Channel(service: 1, characteristic: 2)),
                .write(Array(repeating: 0, count: 245), control),
                .send([[1], Array(repeating: 0, count: 245)], VirtualGATT.data), .send([], VirtualGATT.data),
            ])
        #expect(
            events == [
                refused(VirtualGATT.battery), refused(Channel(service: 1, characteristic: 2)), refused(control),
                refused(VirtualGATT.data),
            ])
        #expect(end?.code == .lost)
    }

    @Test("a link reports the ATT error code of a command that the device refuses")
    func whatTheDeviceRefusesIsToldWithItsErrorCode() throws {
        let (events, end) = try events(
            try Example.device(),
            [
                .write([7, 1, 0], VirtualGATT.control), .read(VirtualGATT.data), .write([1], VirtualGATT.version),
                .subscribe(VirtualGATT.info),
            ])
        let details = events.map { if case .refused(let error, _) = $0 { error.detail } else { "" } }
        // The notifications of Control are off. Data is not readable, Version is not writable, and Info does not notify.
        #expect(
            details == [
                "the device answered with ATT error 0xFD", "the device answered with ATT error 0x2",
                "the device answered with ATT error 0x3", "the device answered with ATT error 0xA",
            ])
        #expect(end?.code == .lost)
    }

    @Test("a second close and a command after the close have no effect")
    func aSecondCloseDoesNothingAndACommandAfterItNeither() throws {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time)
        let (events, end) = try time.run {
            try await transport.withLink { link, events in
                link.submit(.read(VirtualGATT.version))
                link.close()
                link.close()
                link.submit(.read(VirtualGATT.version))
                return await events.collect()
            }
        }
        #expect(events == [])
        #expect(end?.code == .lost)
        #expect(transport.statistics.devicePackets == 0)
    }

    @Test("during an update, a second connection can read but gets the status busy for BEGIN")
    func theDeviceServesOneConnectionAndLetsTheOthersRead() throws {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time)
        try time.run {
            try await transport.host { first in
                try await first.subscribe()
                _ = try await first.demand(1, Example.bytes("01 a9000000 00000000 ab017464e2fa78e9"))
                try await transport.host { second in
                    try await second.subscribe()
                    let version = try await second.read(VirtualGATT.version)
                    #expect(version == Array("1.0.0".utf8))
                    let busy = try await second.request(1, Example.bytes("01 a9000000 00000000 ab017464e2fa78e9"))
                    #expect(busy == [4])
                }
            }
        }
    }

    @Test("the statistics report the maximum number of chunks in flight")
    func theHostIsWatchedForItsWindow() throws {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: try Example.device(), clock: time)
        try time.run {
            try await transport.host {
                try await $0.subscribe()
                try await $0.transfer(1, Example.envelope, digest: Example.digests.envelope, resume: false)
                // The image has 34 chunks of 18 bytes. The host sends 20 at once and then the others.
                _ = try await $0.demand(1, Example.bytes("02 58020000 00000000 db4f2ac25d140369"))
                var chunks: [[UInt8]] = []
                for index in 0..<34 {
                    let part = Example.image.dropFirst(18 * index).prefix(18)
                    chunks.append([UInt8(index + 1), 0x20] + part)
                }
                $0.send(Array(chunks[..<20]))
                _ = try await $0.demand(2, Example.bytes("1520"))
                $0.send(Array(chunks[20...]))
                let answer = try await $0.demand(2, Example.bytes("2320"))
                #expect(answer == Example.bytes("2320 58020000 3b94b2df"))
            }
        }
        #expect(transport.statistics.maximumChunksInFlight == 20)
    }

    @Test("equal seeds give equal transcripts, and different seeds different ones")
    func oneSeedOneTranscript() throws {
        func transcript(seed: UInt64) throws -> UInt64 {
            let time = VirtualTime()
            var radio = RadioModel()
            radio.loss = 0.3
            let transport = SimulatedTransport(device: try Example.device(), clock: time, radio: radio, seed: seed)
            try time.run {
                try await transport.host {
                    try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
                }
            }
            return transport.statistics.transcript
        }
        #expect(try transcript(seed: 5) == transcript(seed: 5))
        #expect(try transcript(seed: 5) != transcript(seed: 6))
    }
}
