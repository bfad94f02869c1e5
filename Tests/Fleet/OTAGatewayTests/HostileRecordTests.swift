import OTAFirmware
import OTAFleet
import OTASimulator
import OTAStore
import Testing

/// A gateway whose credentials were stolen has written records of devices.
@Suite("Hostile records of devices") struct HostileRecordTests {
    private func write(_ members: String, for device: DeviceID, in world: World) async throws {
        let start = #"{"schema":1,"device":"\#(device)","product":"\#(world.fleet.product)","version":"1.0.0","#
        let text = start + members + "}"
        let key = RecordKey(.devices, try #require(RecordName(device.text)))
        #expect(try await world.memory.write(Array(text.utf8), at: key, expecting: .absent) != .conflict)
    }

    @Test(
        "a device in an unsigned rollout of the year 9999 is updated once, 45 s after the gateway has read its record",
        arguments: [#""state":"done""#, #""state":"given-up","reason":"rolled-back""#, #""state":"running""#])
    func unsigned(state: String) throws {
        let world = try World()
        try world.run(attempts: 3) { device, _ in
            let job =
                #","rollout":"zzz","rollout_created":"9999-12-31T23:59:59Z","attempt":1,"#
                + #""gateway":"evil","instance":"00000000""#
            try await write(state + job, for: device, in: world)
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.time.sleep(for: .seconds(44))
            #expect(await world.air.started.isEmpty)
            try await world.wait("the device is done") {
                let record = try await world.record(device)
                return record?.rollout?.text == "t-140" && record?.state == .done
            }
            #expect(world.time.now.offset < .seconds(70))
            try await gateway.stop()
            #expect(await world.air.confirmations == [device: 1])
        }
    }

    @Test("a controller counts a device in an unsigned rollout as waiting")
    func counted() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            let job = #""state":"done","rollout":"zzz","rollout_created":"9999-12-31T23:59:59Z""#
            try await write(job, for: world.device(1), in: world)
            let controller = world.controller()
            try await world.time.sleep(for: .seconds(30))
            await controller.kill()
            #expect(try await world.progress(of: rollout)?.counts.waiting == 1)
        }
    }

    @Test("a controller counts each unreadable record as waiting, and reports the first three and one for all others")
    func junk() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            for number in 1...500 { try await write("", for: world.device(number), in: world) }
            let controller = world.controller()
            try await world.time.sleep(for: .seconds(30))
            await controller.kill()
            #expect(try await world.progress(of: rollout)?.counts.waiting == 500)
            let reports = world.notes.all.filter { $0.contains("cannot be read") }
            #expect(reports.count == 4 && reports.last?.contains("more than 3 devices") == true, "\(reports)")
        }
    }
}
