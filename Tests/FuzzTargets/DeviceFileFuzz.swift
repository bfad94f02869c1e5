import OTASimulator

/// `device.json` of either kind: what is taken for a device is one that can be made, and is written as it was.
enum DeviceFileFuzz {
    static func run(_ bytes: [UInt8]) -> String? { ofTheProfile(bytes) ?? ofSMP(bytes) }

    private static func ofTheProfile(_ bytes: [UInt8]) -> String? {
        guard let configuration = try? DeviceFile(json: bytes).configuration else { return nil }
        if (try? configuration.validate()) == nil { return "a device that cannot be made" }
        guard let json = try? DeviceFile(configuration).json, let again = try? DeviceFile(json: json).configuration
        else {
            return "what was written cannot be read"
        }
        return again == configuration ? nil : "another device comes out"
    }

    private static func ofSMP(_ bytes: [UInt8]) -> String? {
        guard let configuration = try? SMPDeviceFile(json: bytes).configuration else { return nil }
        if (try? configuration.validate()) == nil { return "a device that cannot be made" }
        guard let json = try? SMPDeviceFile(configuration).json,
            let again = try? SMPDeviceFile(json: json).configuration, let rewritten = try? SMPDeviceFile(again).json
        else {
            return "what was written cannot be read"
        }
        return rewritten == json ? nil : "another device comes out"
    }
}
