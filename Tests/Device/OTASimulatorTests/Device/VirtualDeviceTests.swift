import OTAEngine
import OTASimulator
import OTAUpdate
import Testing

/// Calls the device without a link, as a real GATT server does.
@Suite("Virtual device without a link") struct VirtualDeviceTests {
    /// Records the device's notifications and restarts. Used on one thread.
    private final class Watcher: @unchecked Sendable {
        var hasBuffers = false
        var notified: [[UInt8]] = []
        var restarts = 0
    }

    @Test("the device serves reads, writes and notifications, and retries an answer when a buffer is free")
    func isUsableWithoutALink() throws {
        let device = try Example.device { $0.battery = 55 }
        let watcher = Watcher()
        device.observe(
            onNotification: { connection, channel, value in
                #expect(connection == 9 && channel == VirtualGATT.control)
                if watcher.hasBuffers { watcher.notified.append(value) }
                return watcher.hasBuffers
            }, onRestart: {})
        #expect(device.connect(9, at: .seconds(1)))
        #expect(throws: ATTError(code: 0xFD)) { try device.write(9, VirtualGATT.control, [7, 1, 3], at: .seconds(1)) }
        try device.subscribe(9, to: VirtualGATT.control, at: .seconds(1))
        try device.write(9, VirtualGATT.control, [7, 1, 3], at: .seconds(1))
        // The device has executed the request, and its answer waits for a buffer.
        #expect(device.identifyRequests == [3])
        #expect(watcher.notified.isEmpty)
        watcher.hasBuffers = true
        _ = device.poll(at: .milliseconds(1010))
        #expect(watcher.notified == [[0x87, 1, 0]])
        #expect(try device.read(9, VirtualGATT.battery, at: .seconds(2)) == [55])
        #expect(try device.read(9, VirtualGATT.version, offset: 2, capacity: 2, at: .seconds(2)) == Array("0.".utf8))
        device.disconnect(9, at: .seconds(3))
        #expect(throws: ATTError.unlikely) { try device.read(9, VirtualGATT.version, at: .seconds(4)) }
    }

    /// Returns a device that has just received an image and marked it for a trial, and the current time.
    private func marked(trialSeconds: Int = 60) throws -> (VirtualDevice, Duration) {
        let time = VirtualTime()
        let device = try Example.device { $0.trialSeconds = trialSeconds }
        let transport = SimulatedTransport(device: device, clock: time)
        try time.run {
            try await transport.host {
                try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
            }
        }
        return (device, time.now.offset)
    }

    @Test("Info of a virtual device announces encodings and the largest base, as configured")
    func encodings() throws {
        for (offersEncodings, offersBase, item) in [
            (true, true, [11, 5, 1, 0, 16, 0, 0]), (true, false, [11, 5, 1, 0, 0, 0, 0]), (false, true, nil),
        ] as [(Bool, Bool, [UInt8]?)] {
            let device = try Example.device {
                $0.offersEncodings = offersEncodings
                $0.offersBase = offersBase
            }
            #expect(device.connect(1, at: .zero))
            let info = try device.read(1, VirtualGATT.info, at: .zero)
            // Without encodings, the last item is the key's ID.
            #expect(Array(info.suffix(7)) == item ?? Example.bytes("fe31dfa154a261"))
        }
    }

    @Test("a flash of 100 bytes/s adds the time of each written byte to an update, and changes nothing else")
    func slowFlash() throws {
        func update(_ flashSpeed: Int?) throws -> Duration {
            let time = VirtualTime()
            let device = try Example.device { $0.flashSpeed = flashSpeed }
            let transport = SimulatedTransport(device: device, clock: time)
            try time.run {
                try await transport.host {
                    try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
                }
            }
            #expect(device.flashViolationCount == 0)
            #expect(device.bootState?.trial == .pending)
            return time.now.offset
        }
        // 600 bytes of the image, records of 48 bytes, and a boot record.
        let added = try update(100) - update(nil)
        #expect(Duration.seconds(6)...(.seconds(11)) ~= added)
    }

    @Test("an unconfirmed trial without a connection rolls back after its limit of 60 s")
    func aTrialNobodyConfirmsEndsByItselfWhileNobodyLooks() throws {
        let (device, marked) = try marked()
        _ = device.poll(at: marked + .seconds(1))
        #expect(device.running?.isOnTrial == true && device.running?.image.version == "1.1.0")
        // The trial starts after the boot, which takes 800 ms, and ends 60 s later.
        _ = device.poll(at: marked + .milliseconds(800 + 59_990))
        #expect(device.running?.isOnTrial == true)
        _ = device.poll(at: marked + .milliseconds(800 + 60_010))
        #expect(device.running == nil)
        _ = device.poll(at: marked + .seconds(3600))
        #expect(device.running?.isOnTrial == false && device.running?.image.version == "1.0.0")
        #expect(device.restartCount == 2)
    }

    @Test("a power cut during a trial rolls back to the old image")
    func aTrialIsOverWithThePower() throws {
        let (device, marked) = try marked()
        _ = device.poll(at: marked + .seconds(2))
        #expect(device.running?.isOnTrial == true)
        device.losePower(at: marked + .seconds(2))
        #expect(device.running == nil)
        #expect(device.reachable(at: marked + .seconds(2)) == marked + .seconds(2) + VirtualDevice.bootTime)
        _ = device.poll(at: marked + .seconds(3))
        #expect(device.running?.image.version == "1.0.0")
    }

    @Test("a restart ends all connections, and the device accepts none until it has booted")
    func aRestartEndsAllConnections() throws {
        let (device, marked) = try marked()
        let watcher = Watcher()
        device.observe(onNotification: { _, _, _ in true }, onRestart: { watcher.restarts += 1 })
        #expect(!device.connect(1, at: marked))
        #expect(device.connect(1, at: marked + .seconds(1)))
        #expect(device.isConnected(1))
        device.losePower(at: marked + .seconds(2))
        #expect(!device.isConnected(1))
        #expect(watcher.restarts == 1)
        #expect(!device.connect(1, at: marked + .seconds(2)))
    }

    @Test("a suspended device is unreachable, and its trial is pending again")
    func whoIsSuspendedIsNotThere() throws {
        let (device, marked) = try marked()
        _ = device.poll(at: marked + .seconds(2))
        device.suspend()
        #expect(device.reachable(at: marked + .seconds(9)) == nil)
        #expect(!device.connect(1, at: marked + .seconds(9)))
        #expect(device.bootState?.trial == .pending)
    }

    @Test(
        "a configuration with a value out of range is refused with bad-configuration",
        arguments: [
            { $0.window = 0 }, { $0.window = 2048 }, { $0.longestData = 19 }, { $0.longestData = 513 },
            { $0.battery = 101 }, { $0.restartSeconds = 0 }, { $0.trialSeconds = -1 }, { $0.trustedKeys = [] },
            { $0.trustedKeys += $0.trustedKeys }, { $0.layout = FlashLayout(pageSize: 256) },
            { $0.layout = FlashLayout(pageSize: 1000) }, { $0.layout = FlashLayout(slotSize: 5000) },
            { $0.layout = FlashLayout(writeUnit: 3) }, { $0.queueLength = 0 }, { $0.chunkTime = .nanoseconds(-1) },
        ] as [@Sendable (inout VirtualDeviceConfiguration) -> Void])
    func whatNoDeviceCanBeIsRefused(change: @Sendable (inout VirtualDeviceConfiguration) -> Void) {
        #expect(throws: VirtualDeviceError(.badConfiguration, "")) { try Example.device(change) }
    }
}
