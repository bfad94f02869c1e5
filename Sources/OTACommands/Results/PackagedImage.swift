import OTAFirmware
import OTASigning

/// An MCUboot image among those of a file, with what was found of it.
struct PackagedImage: Encodable, Sendable {
    /// Which of the device's images it is; 0 where the device has one.
    let number: UInt32
    /// Its name in a package.
    let name: String?
    let image: ImageSummary

    init(_ entry: NumberedFile, _ report: MCUbootReport) {
        number = entry.number
        name = entry.name
        image = ImageSummary(entry.file, report)
    }

    /// That it is verified.
    func sentence(of file: String, isAlone: Bool) -> String {
        let title = name.map { "\($0.printableLine) in \(file.printableLine)" } ?? file.printableLine
        let number = isAlone && self.number == 0 ? "" : ", image \(self.number)"
        return "\(title) is verified: MCUboot image \(image.version ?? "")\(number), \(image.size) bytes."
    }

    /// What was checked, and what was not.
    var lines: [String] {
        let unsaid = "an MCUboot image does not say for which product or hardware it is"
        return (image.mcuboot?.checked ?? []).map { "  Checked: \($0)" }
            + ((image.notes ?? []) + [unsaid]).map { "  Not checked: \($0)" }
    }
}
