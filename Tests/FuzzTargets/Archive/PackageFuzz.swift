import OTACommands
import OTASMP
import OTASigning

/// The manifest of a package for Device Manager, in an archive with two images: what it says, each image has a number of its own.
enum PackageFuzz {
    private static let release = try? SMPRelease()

    static func run(_ bytes: [UInt8]) -> String? {
        guard let release else { return "there is no release" }
        let images = release.images.map { FuzzArchive.File(name: "\($0.number).bin", packed: $0.verified.bytes) }
        let archive = FuzzArchive.bytes([FuzzArchive.File(name: "manifest.json", packed: bytes)] + images)
        guard let files = try? ImagePackage.images(in: archive) else { return nil }
        guard !files.isEmpty, files.count <= 2 else { return "\(files.count) images of two" }
        guard Set(files.map(\.number)).count == files.count else { return "two images have one number" }
        return files.allSatisfy { ["0.bin", "1.bin"].contains($0.name) } ? nil : "an image that is not in it"
    }
}
