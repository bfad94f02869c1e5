import OTAFirmware
import OTASMP
import OTASigning
import OTASimulator

/// Reads `device.json` of both kinds of virtual devices.
///
/// An accepted configuration must be valid, and must be the same after writing and reading.
enum DeviceFileFuzz {
    static func run(_ bytes: [UInt8]) -> String? { ofTheProfile(bytes) ?? ofSMP(bytes) }

    private static func ofTheProfile(_ bytes: [UInt8]) -> String? {
        guard let configuration = try? ProfileDeviceFile(json: bytes).configuration else { return nil }
        if (try? configuration.validate()) == nil { return "an accepted configuration is invalid" }
        guard let json = try? ProfileDeviceFile(configuration).json,
            let again = try? ProfileDeviceFile(json: json).configuration
        else {
            return "the written file cannot be read"
        }
        return again == configuration ? nil : "the configuration differs after writing and reading"
    }

    private static func ofSMP(_ bytes: [UInt8]) -> String? {
        guard let configuration = try? SMPDeviceFile(json: bytes).configuration else { return nil }
        if (try? configuration.validate()) == nil { return "an accepted configuration is invalid" }
        guard let json = try? SMPDeviceFile(configuration).json,
            let again = try? SMPDeviceFile(json: json).configuration, let rewritten = try? SMPDeviceFile(again).json
        else {
            return "the written file cannot be read"
        }
        return rewritten == json ? nil : "the configuration differs after writing and reading"
    }
}

/// Starts a virtual device with arbitrary flash contents and sends it some requests. It may refuse to boot, but must not trap.
enum DeviceFlashFuzz {
    private static let layout = FlashLayout(pageSize: 512, slotSize: 512, writeUnit: 1)
    private static let key = try? PrivateKey(seed: [UInt8](repeating: 7, count: 32)).publicKey

    static func run(_ bytes: [UInt8]) -> String? {
        guard let key, let product = ProductName("demo") else { return "the key or the product name cannot be made" }
        let flash = VirtualFlash(layout: layout)
        try? flash.program(Array(bytes.prefix(layout.size)), at: 0)
        var configuration = VirtualDeviceConfiguration(product: product, trustedKeys: [key])
        configuration.layout = layout
        let device = VirtualDevice(configuration, flash: flash)
        let later = Duration.seconds(2)
        guard device.reachable(at: later) != nil else { return nil }
        guard device.connect(1, at: later) else { return nil }
        for channel in device.channels { _ = try? device.read(1, channel, at: later) }
        try? device.subscribe(1, to: VirtualGATT.control, at: later)
        try? device.write(1, VirtualGATT.control, [5, 1], at: later)
        device.losePower(at: later)
        _ = device.poll(at: .seconds(100))
        return device.flashViolationCount == 0 ? nil : "the device violated the rules of NOR flash"
    }
}

/// Sends arbitrary values and power cuts to a virtual device with SMP. It must always stay bootable and run only signed images.
enum SMPDeviceFuzz {
    private static let layout = FlashLayout(pageSize: 512, slotSize: 1024, writeUnit: 4)
    private static let key = try? PrivateKey(seed: [UInt8](repeating: 7, count: 32))
    private static let release = try? SMPRelease()
    private static let valueLength = 244

    static func run(_ bytes: [UInt8]) -> String? {
        guard let key, let image = release?.images.first?.verified.bytes else { return "the release cannot be made" }
        var input = FuzzInput(bytes)
        let variant = input.next()
        var configuration = VirtualSMPConfiguration()
        configuration.layout = layout
        configuration.bufferSize = 64 + Int(variant) * 2
        configuration.reassembles = variant & 1 == 0
        configuration.checksImage = variant & 2 == 0
        configuration.erase = variant & 4 == 0 ? .progressive : .wholeSlot(.milliseconds(500))
        configuration.refusesDowngrade = variant & 8 != 0
        guard let device = try? VirtualSMPDevice(configuration, factoryKey: key) else {
            return "the device cannot be made"
        }
        var now = Duration.seconds(1)
        _ = device.poll(at: now)
        let factory = device.runningImage
        while !input.isEmpty {
            step(device, &input, image, at: &now)
            if device.isUnbootable { return "the device is unbootable" }
            if let running = device.runningImage, running != factory, running != image {
                return "the device runs a foreign image"
            }
        }
        return device.flashViolationCount == 0 ? nil : "the device violated the rules of NOR flash"
    }

    private static func step(
        _ device: VirtualSMPDevice, _ input: inout FuzzInput, _ image: [UInt8], at now: inout Duration
    ) {
        let what = input.next()
        switch what & 7 {
        case 0:
            _ = device.connect(1, valueLength: valueLength, at: now)
            try? device.subscribe(1, to: SMPChannel.value, on: true, at: now)
        case 1: device.disconnect(1, at: now)
        case 2: device.losePower(at: now)
        case 3:
            now += .milliseconds(Int(input.next()) * 8)
            _ = device.poll(at: now)
        case 4: _ = device.schedule([PowerCut(operation: 1 + Int(input.next()), moment: .during)], worn: [])
        case 5: write(input.bytes(upTo: Int(input.next())), to: device, at: now)
        case 6: write(frame(what, body: input.bytes(upTo: Int(input.next())), &input), to: device, at: now)
        default: write(chunk(of: image, &input), to: device, at: now)
        }
    }

    private static func write(_ value: [UInt8], to device: VirtualSMPDevice, at now: Duration) {
        try? device.write(1, SMPChannel.value, value, at: now)
    }

    /// Returns a packet with a valid header and an arbitrary body.
    private static func frame(_ what: UInt8, body: [UInt8], _ input: inout FuzzInput) -> [UInt8] {
        let command = input.next()
        let operation: SMPFrame.Operation = what & 0x80 == 0 ? .write : .read
        let frame = SMPFrame(
            version: what & 0x40 == 0 ? .second : .first, operation: operation, group: UInt16(what >> 4 & 3),
            sequence: command, command: command % 10, body: body)
        return frame.bytes
    }

    /// Returns an upload request with bytes of a signed image.
    private static func chunk(of image: [UInt8], _ input: inout FuzzInput) -> [UInt8] {
        let offset = min(Int(input.next()) * 4, image.count)
        let data = Array(image[offset...].prefix(Int(input.next())))
        let opening = SMPChunk.Opening(length: image.count, digest: SHA256.digest(of: image).bytes, image: 0)
        let chunk = SMPChunk(opening: offset == 0 ? opening : nil, offset: offset, data: data)
        return SMPRequest.upload(chunk).frame(sequence: 1, version: .second).bytes
    }
}
