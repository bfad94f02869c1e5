import OTAFirmware
import OTASigning
import OTAUpdate

/// The file `device.json` in the folder of a virtual device with the GATT OTA profile. It contains the device's configuration.
///
/// The image format has the same numeric value as in a manifest.
package struct ProfileDeviceFile: Codable {
    private let schema: Int
    private let product: String
    private let hardware: UInt16
    /// The raw value of an `ImageFormat`. Nil means every format.
    private let imageFormat: UInt8?
    private let trustedKeys: [String]
    /// Nil means 1, because files of earlier releases do not contain this member.
    private let requiredSignatures: Int?
    /// The names of the required algorithms; nil: none.
    private let requiredAlgorithms: [String]?
    /// Nil means the default for the device's keys.
    private let largestEnvelope: Int?
    /// Nil means no limit.
    private let largestCounterStep: UInt32?
    private let battery: Int?
    private let pageSize, slotSize, writeUnit: Int
    private let window, longestData: Int
    private let restartSeconds, trialSeconds: Int
    /// Nil means true, because files of earlier releases do not contain these members.
    private let offersEncodings, offersBase: Bool?

    package init(_ configuration: VirtualDeviceConfiguration) {
        schema = 1
        product = configuration.product.text
        hardware = configuration.hardware
        imageFormat = configuration.imageFormat?.rawValue
        trustedKeys = configuration.trustedKeys.map { Hex.encode($0.bytes) }
        requiredSignatures = configuration.requiredSignatures == 1 ? nil : configuration.requiredSignatures
        requiredAlgorithms =
            configuration.requiredAlgorithms.isEmpty ? nil : configuration.requiredAlgorithms.map(\.name).sorted()
        let ordinary = VirtualDeviceConfiguration(
            product: configuration.product, trustedKeys: configuration.trustedKeys)
        largestEnvelope =
            configuration.largestEnvelope == ordinary.largestEnvelope ? nil : configuration.largestEnvelope
        largestCounterStep = configuration.largestCounterStep == 0 ? nil : configuration.largestCounterStep
        battery = configuration.battery
        pageSize = configuration.layout.pageSize
        slotSize = configuration.layout.slotSize
        writeUnit = configuration.layout.writeUnit
        window = configuration.window
        longestData = configuration.longestData
        restartSeconds = configuration.restartSeconds
        trialSeconds = configuration.trialSeconds
        offersEncodings = configuration.offersEncodings ? nil : false
        offersBase = configuration.offersBase ? nil : false
    }

    /// Parses the file.
    ///
    /// - Throws: `malformed` or `fromNewerVersion`. The caller must add the path to the error's context.
    package init(json: [UInt8]) throws(VirtualDeviceError) { self = try DeviceJSON.read(json) }

    package var json: [UInt8] { get throws { try DeviceJSON.write(self) } }

    /// The device's configuration.
    ///
    /// - Throws: `malformed`. The caller must add the path to the error's context.
    package var configuration: VirtualDeviceConfiguration {
        get throws(VirtualDeviceError) {
            guard let product = ProductName(product) else {
                throw VirtualDeviceError(.malformed, "the product '\(product)' is not \(ProductName.rule)")
            }
            let format = ImageFormat.bootable.first { $0.rawValue == imageFormat }
            if let imageFormat, format == nil {
                throw VirtualDeviceError(.malformed, "unknown image format \(imageFormat)")
            }
            var configuration = VirtualDeviceConfiguration(
                product: product, trustedKeys: try DeviceJSON.keys(trustedKeys))
            configuration.hardware = hardware
            configuration.imageFormat = format
            configuration.requiredSignatures = requiredSignatures ?? 1
            for name in requiredAlgorithms ?? [] {
                guard let algorithm = SignatureAlgorithm.allCases.first(where: { $0.name == name }) else {
                    throw VirtualDeviceError(.malformed, "unknown algorithm '\(name)'")
                }
                configuration.requiredAlgorithms.insert(algorithm)
            }
            configuration.largestEnvelope = largestEnvelope ?? configuration.largestEnvelope
            configuration.largestCounterStep = largestCounterStep ?? 0
            configuration.battery = battery
            configuration.layout = FlashLayout(pageSize: pageSize, slotSize: slotSize, writeUnit: writeUnit)
            configuration.window = window
            configuration.longestData = longestData
            configuration.restartSeconds = restartSeconds
            configuration.trialSeconds = trialSeconds
            configuration.offersEncodings = offersEncodings ?? true
            configuration.offersBase = offersBase ?? true
            // The wear limit protects real flash, but a file does not wear out. The limit could also block a virtual device for ever. A
            // device at the limit answers "busy" until some time has passed, but the clock of a virtual device stops between two runs of
            // otaflash.
            configuration.limitsWear = false
            do {
                try configuration.validate()
            } catch {
                throw VirtualDeviceError(.malformed, error.context)
            }
            return configuration
        }
    }
}
