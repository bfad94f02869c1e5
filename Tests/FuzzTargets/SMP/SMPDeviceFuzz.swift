import OTAFirmware
import OTASMP
import OTASigning
import OTASimulator

/// A virtual device that speaks SMP, to whom anybody writes anything: something always runs on it, and what runs is signed.
enum SMPDeviceFuzz {
    private static let layout = FlashLayout(pageSize: 512, slotSize: 1024, writeUnit: 4)
    private static let key = try? PrivateKey(seed: [UInt8](repeating: 7, count: 32))
    private static let release = try? SMPRelease()
    private static let valueLength = 244

    static func run(_ bytes: [UInt8]) -> String? {
        guard let key, let image = release?.images.first?.verified.bytes else { return "there is no release" }
        var input = FuzzInput(bytes)
        let variant = input.next()
        var configuration = VirtualSMPConfiguration()
        configuration.layout = layout
        configuration.bufferSize = 64 + Int(variant) * 2
        configuration.reassembles = variant & 1 == 0
        configuration.checksImage = variant & 2 == 0
        configuration.erase = variant & 4 == 0 ? .progressive : .wholeSlot(.milliseconds(500))
        configuration.refusesDowngrade = variant & 8 != 0
        guard let device = try? VirtualSMPDevice(configuration, factoryKey: key) else { return "there is no device" }
        var now = Duration.seconds(1)
        _ = device.poll(at: now)
        let factory = device.runningImage
        while !input.isEmpty {
            step(device, &input, image, at: &now)
            if device.isUnbootable { return "it cannot be started any more" }
            if let running = device.runningImage, running != factory, running != image { return "a foreign image runs" }
        }
        return device.flashViolationCount == 0 ? nil : "the flash was not used as NOR flash may be"
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

    /// A packet whose header is whole, whatever it carries.
    private static func frame(_ what: UInt8, body: [UInt8], _ input: inout FuzzInput) -> [UInt8] {
        let command = input.next()
        let operation: SMPFrame.Operation = what & 0x80 == 0 ? .write : .read
        let frame = SMPFrame(
            version: what & 0x40 == 0 ? .second : .first, operation: operation, group: UInt16(what >> 4 & 3),
            sequence: command, command: command % 10, body: body)
        return frame.bytes
    }

    /// Some bytes of an image that is signed.
    private static func chunk(of image: [UInt8], _ input: inout FuzzInput) -> [UInt8] {
        let offset = min(Int(input.next()) * 4, image.count)
        let data = Array(image[offset...].prefix(Int(input.next())))
        let opening = SMPChunk.Opening(length: image.count, digest: SHA256.digest(of: image).bytes, image: 0)
        let chunk = SMPChunk(opening: offset == 0 ? opening : nil, offset: offset, data: data)
        return SMPRequest.upload(chunk).frame(sequence: 1, version: .second).bytes
    }
}
