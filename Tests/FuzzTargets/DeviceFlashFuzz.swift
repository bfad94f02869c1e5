import OTAFirmware
import OTASigning
import OTASimulator

/// A virtual device whose flash holds anything: it boots or it does not, and answers whoever asks.
enum DeviceFlashFuzz {
    private static let layout = FlashLayout(pageSize: 512, slotSize: 512, writeUnit: 1)
    private static let key = try? PrivateKey(seed: [UInt8](repeating: 7, count: 32)).publicKey

    static func run(_ bytes: [UInt8]) -> String? {
        guard let key, let product = ProductName("demo") else { return "there is no key" }
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
        return device.flashViolationCount == 0 ? nil : "the flash was not used as NOR flash may be"
    }
}
