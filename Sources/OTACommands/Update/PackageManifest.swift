import FoundationEssentials
import OTAFirmware

/// The used members of `manifest.json` in a package for nRF Connect Device Manager, as the nRF Connect SDK writes it.
struct PackageManifest: Decodable {
    static let name = "manifest.json"

    struct File: Decodable {
        let file: String
        let type: String?
        let board: String?
        /// The size of the file in bytes; nil: not listed.
        let size: Int?
        /// The image number. The nRF Connect SDK writes it as text.
        let imageIndex: Number?
        let versionMCUboot: String?

        /// The number of the device's image that the file replaces; 0 if it is not listed.
        var number: UInt32 { imageIndex?.value ?? 0 }

        private enum CodingKeys: String, CodingKey {
            case file, type, board, size
            case imageIndex = "image_index"
            case versionMCUboot = "version_MCUBOOT"
        }
    }

    /// A JSON number, or a JSON string with a decimal number.
    struct Number: Decodable {
        let value: UInt32

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                guard let number = Numeral.value(text, in: 0...UInt32.max) else {
                    throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a number")
                }
                value = number
            } else {
                value = try container.decode(UInt32.self)
            }
        }
    }

    let files: [File]

    /// Parses `manifest.json`.
    ///
    /// - Throws: `bad-package-manifest`.
    init(parsing json: [UInt8]) throws(PackageError) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(json))
        } catch {
            throw PackageError(
                .badManifest, "its manifest.json does not list files in the format of nRF Connect Device Manager")
        }
    }
}
