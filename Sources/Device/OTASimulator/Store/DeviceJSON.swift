import FoundationEssentials
import OTAFirmware
import OTASigning

/// Reads and writes `device.json`, the file with the configuration in the folder of a virtual device. Each protocol has a type of file of
/// its own. The member names are in snake case. Sizes are in bytes. A key has
/// two hex digits for each of its bytes.
package enum DeviceJSON {
    /// The newest schema that this release can read. The files of devices with the GATT OTA profile have schema 1, the other files schema
    /// 2.
    package static let newestSchema = 2

    /// The members that the store reads first. The store refuses a `schema` above `newestSchema`. `protocol` selects the type of the file.
    private struct Head: Decodable {
        let schema: Int
        let `protocol`: String?
    }

    /// Returns the name of the device's protocol; nil if the file has no member `protocol`.
    ///
    /// - Throws: `malformed` or `fromNewerVersion`. The caller must add the path to the error's context.
    static func protocolName(_ json: [UInt8]) throws(VirtualDeviceError) -> String? {
        try read(json, Head.self).protocol
    }

    package static func read<File: Decodable>(
        _ json: [UInt8], _ type: File.Type = File.self
    ) throws(VirtualDeviceError) -> File {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        do {
            let schema = try decoder.decode(Head.self, from: Data(json)).schema
            guard schema <= newestSchema else {
                throw VirtualDeviceError(
                    .fromNewerVersion, "the file has schema \(schema); this release supports up to \(newestSchema)")
            }
            return try decoder.decode(File.self, from: Data(json))
        } catch let error as VirtualDeviceError {
            throw error
        } catch {
            throw VirtualDeviceError(.malformed, describe(error))
        }
    }

    package static func write(_ file: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return Array(try encoder.encode(file)) + [UInt8(ascii: "\n")]
    }

    /// Parses trusted keys in hex digits. The length of a key shows its algorithm.
    ///
    /// - Throws: `malformed`.
    static func keys(_ texts: [String]) throws(VirtualDeviceError) -> [PublicKey] {
        var keys: [PublicKey] = []
        for text in texts {
            let bytes = Hex.decode(text) ?? []
            guard
                let algorithm = SignatureAlgorithm.allCases.first(where: { $0.publicKeyLength == bytes.count }),
                let key = try? PublicKey(algorithm: algorithm, bytes: bytes)
            else {
                throw VirtualDeviceError(
                    .malformed, "trusted key \(keys.count + 1) is not a public key of Ed25519 or ML-DSA in hex digits")
            }
            keys.append(key)
        }
        return keys
    }

    private static func describe(_ error: any Error) -> String {
        switch error {
        case DecodingError.keyNotFound(let key, _): "the member \(key.stringValue) is missing"
        case DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context):
            "the member \(context.codingPath.map(\.stringValue).joined(separator: ".")) has the wrong type"
        case DecodingError.dataCorrupted(let context) where !context.codingPath.isEmpty:
            "the member \(context.codingPath.map(\.stringValue).joined(separator: ".")) is out of range"
        default: "the file is not valid JSON"
        }
    }
}
